package loadgen

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kring/client"
)

// well is a result without findings.
func well() *Result {
	return &Result{
		Requests: 12_000, RPS: 1200, Seconds: 10,
		Latency:  Latency{P50: 1, P999: 140, Max: 160}, // loads of a slow origin
		Unwaited: Unwaited{11_000, Latency{P50: 1, P999: 15, Max: 400}},
		Books:    Books{Balanced: true, NotChecked: []string{noOrigin}},
	}
}

// The verdict names what was bad, and nothing else.
func TestVerdictNamesWhatWasBad(t *testing.T) {
	for _, tt := range []struct {
		name    string
		edit    func(r *Result)
		outcome Outcome
		want    []string
	}{
		{"nothing", func(*Result) {}, Well, nil},
		{"a node that did not answer", func(r *Result) { r.Books.Silent = []string{"kring-2", "http://h:1"} }, Doubtful, []string{"did not answer: kring-2, http://h:1"}},
		{"retries", func(r *Result) { r.Retries = 3 }, Doubtful, []string{"requests sent again to another node: 3"}},
		{
			"answers of stand-ins", func(r *Result) { r.Marked = map[string]int64{"stand-in": 7, "cut-off": 2, "x": 0} }, Doubtful,
			[]string{"answers marked cut-off: 2", "answers marked stand-in: 7"},
		},
		{
			"outliers", func(r *Result) { r.Unwaited.P999 = 501 }, Doubtful,
			[]string{"slow answers: the p99.9 of those that waited for no load is 501 ms, their median 1.00 ms"},
		},
		{"outliers of a busy machine", func(r *Result) { r.Unwaited.P999 = 99 }, Well, nil},
		{"outliers beside a slow median", func(r *Result) { r.Unwaited.P50, r.Unwaited.P999 = 30, 600 }, Well, nil},
		{"too few answers for a percentile", func(r *Result) { r.Unwaited.P999, r.Unwaited.Count = 501, 999 }, Well, nil},
		{
			"a rate that was not reached", func(r *Result) { r.Setup.Rate, r.Requests, r.RPS = 12_000, 1200, 120 }, Doubtful,
			[]string{"the rate was not reached: 120 of 12000 requests a second"},
		},
		{"a rate that was nearly reached", func(r *Result) { r.Setup.Rate, r.Requests = 1250, 11_900 }, Well, nil},
		{"a rate that was just missed", func(r *Result) { r.Setup.Rate, r.Requests, r.RPS = 1250, 11_870, 1187 }, Doubtful, []string{"the rate was not reached: 1187 of 1250 requests a second"}},
		{"an interruption while the last answers were waited for", func(r *Result) { r.Setup.Rate, r.Requests, r.Interrupted, r.sending = 1200, 9_600, true, 8*time.Second }, Well, nil},
		{
			"a rate that was not reached before an interruption", func(r *Result) {
				r.Setup.Rate, r.Requests, r.RPS, r.Seconds, r.Interrupted, r.sending = 12_000, 1200, 800, 1.5, true, time.Second
			}, Doubtful,
			[]string{"the rate was not reached: 800 of 12000 requests a second"},
		},
		{
			"books that were not checked", func(r *Result) { r.Books.NotChecked = []string{"the cluster: k is gone", noOrigin} }, Doubtful,
			[]string{"the books were not checked: the cluster: k is gone"},
		},
		{
			"books that do not balance", func(r *Result) { r.Books.Wrong = []string{"a: 2 gets", "b"}; r.Books.NotChecked = []string{"c"} }, Wrong,
			[]string{"the books do not balance: a: 2 gets", "the books were not checked: c"},
		},
		{
			"errors beside all else", func(r *Result) { r.Errors, r.VerifyFailed, r.Verified, r.Retries = 5, 2, 4, 1 }, Wrong,
			[]string{"2 of 4 verified answers failed", "5 of 12000 requests failed", "requests sent again to another node: 1"},
		},
		{"no answer at all", func(r *Result) { r.Requests, r.Setup.Rate = 0, 100 }, Wrong, []string{"not one request was answered"}},
	} {
		r := well()
		tt.edit(r)
		r.judge()
		if r.Outcome != tt.outcome || !slices.Equal(r.Findings, tt.want) {
			t.Errorf("%s: %s, %q; want %s, %q", tt.name, r.Outcome, r.Findings, tt.outcome, tt.want)
		}
		if (r.Err() != nil) != (tt.outcome == Wrong) {
			t.Errorf("%s: error %v", tt.name, r.Err())
		}
		verdict := r.verdict()
		if strings.HasPrefix(verdict, "all was well") != (tt.outcome == Well) {
			t.Errorf("%s: verdict %q", tt.name, verdict)
		}
		if r.Outcome == Well && strings.HasSuffix(verdict, "until the interruption") != r.Interrupted {
			t.Errorf("%s: verdict %q", tt.name, verdict)
		}
		for _, f := range tt.want {
			if !strings.Contains(verdict, f) {
				t.Errorf("%s: the verdict %q lacks %q", tt.name, verdict, f)
			}
		}
	}
}

// Books that were not checked are not balanced, and neither are wrong ones.
func TestBooksHaveOneState(t *testing.T) {
	for _, tt := range []struct {
		books Books
		state string
		rows  []string
	}{
		{Books{}, "balanced", []string{"balanced"}},
		{Books{NotChecked: []string{noOrigin}}, "balanced", []string{"balanced, without the origin's: no --origin is given"}},
		{Books{NotChecked: []string{"the cluster: k is new", noOrigin}}, "not checked", []string{"not checked: the cluster: k is new"}},
		{Books{Wrong: []string{"x"}, NotChecked: []string{"y"}}, "not balanced", []string{"NOT BALANCED: x", "not checked: y"}},
	} {
		tt.books.judge()
		if rows := tt.books.rows(); tt.books.State != tt.state || !slices.Equal(rows, tt.rows) {
			t.Errorf("%+v: %q, want %q and %q", tt.books, rows, tt.state, tt.rows)
		}
	}
}

// The outlier check ignores failed requests and answers that waited for a load.
func TestUnwaitedLatency(t *testing.T) {
	r := &run{cfg: &Config{}, recorder: newRecorder(1)}
	for _, s := range []sample{
		{from: provenanceOf("k; hit"), latency: time.Millisecond},
		{from: provenanceOf("k-2; hit, k-1; fwd=miss; detail=peer:k-2"), latency: 2 * time.Millisecond},
		{op: opPut, latency: 3 * time.Millisecond},
		{op: opDelete, latency: 4 * time.Millisecond},
		{from: provenanceOf("k; fwd=miss; fwd-status=200; stored"), latency: time.Second},
		{from: provenanceOf("k-2; fwd=miss; collapsed, k-1; fwd=miss; detail=peer:k-2"), latency: time.Second},
		{failure: "unavailable", latency: time.Second},
	} {
		if err := r.recorder.record(0, &s); err != nil {
			t.Fatal(err)
		}
	}
	res := r.result(client.Counters{})
	if u := res.Unwaited; u.Count != 4 || u.P50 < 1.9 || u.P50 > 2.1 || u.Max > 4.1 {
		t.Errorf("unwaited: %+v, want 4 of 1 to 4 ms", u)
	}
	if res.Latency.Max < 1000 {
		t.Errorf("latency: %+v, want all of them in it", res.Latency)
	}
}

func TestNumbersOnAxesCanBeRead(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.001: "0.001", 0.1 + 0.2: "0.3", 5: "5", 999: "999", 1000: "1,000", 12000: "12,000", 123456: "123,500",
		1e6: "1,000,000", 12345678: "12,350,000", -1234: "-1,234", 0.00001: "0.00001", 2.5: "2.5", 1234.5: "1,234",
	} {
		if got := number(f); got != want {
			t.Errorf("%v is written %q, want %q", f, got, want)
		}
	}
}
