package loadgen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kring/loadgen"
	"kring/node"
	"kring/node/nodetest"
	"kring/origin/demo"
)

// startCluster runs nodes in front of the demo origin, and returns the
// configuration of a run against them.
func startCluster(t *testing.T, nodes int, control demo.Control, edits ...func(int, *node.Config)) (*nodetest.Cluster, *demo.Server, loadgen.Config) {
	t.Helper()
	c := nodetest.Start(t, nodes, edits...)
	origin, err := demo.New(demo.Options{Control: control})
	if err != nil {
		t.Fatal(err)
	}
	c.Origin.Answer(origin.ServeHTTP)
	// The origin's counters have their own address, so that reading them is no
	// load.
	books := httptest.NewServer(origin)
	t.Cleanup(books.Close)

	cfg := loadgen.DefaultConfig()
	cfg.Group, cfg.Origin, cfg.Verify, cfg.Concurrency, cfg.Seed = "docs", books.URL, true, 8, 1
	for _, n := range c.Nodes {
		cfg.Nodes = append(cfg.Nodes, n.URL)
	}
	return c, origin, cfg
}

func run(t *testing.T, cfg loadgen.Config) *loadgen.Result {
	t.Helper()
	r, err := loadgen.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &text)
	checkResult(t, r)
	return r
}

// checkResult checks what holds for every run.
func checkResult(t *testing.T, r *loadgen.Result) {
	t.Helper()
	if r.Requests != r.Gets+r.Puts+r.Deletes {
		t.Errorf("%d requests, but %d gets, %d puts, %d deletes", r.Requests, r.Gets, r.Puts, r.Deletes)
	}
	if sum(r.ErrorsByCode) != r.Errors || sum(r.VerifyFailures) != r.VerifyFailed {
		t.Errorf("the classes of errors do not add up: %+v", r)
	}
	if r.Errors == 0 && sum(r.Answers) != r.Gets {
		t.Errorf("%d gets, but answers %v", r.Gets, r.Answers)
	}
	if sum(r.Behind) > r.Answers["peer"] {
		t.Errorf("%d answers of peers, but behind them %v", r.Answers["peer"], r.Behind)
	}
	if l := r.Latency; l.P50 > l.P95 || l.P95 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
		t.Errorf("percentiles fall: %+v", l)
	}
}

// patience bounds waits on a busy machine.
const patience = 45 * time.Second

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

func TestReadsOfACluster(t *testing.T) {
	c, origin, cfg := startCluster(t, 3, demo.Control{Version: "1", Size: 50, Latency: demo.Duration(time.Millisecond)})
	if err := errors.Join(warm(t, c, "key-0")); err != nil { // the run must not count these loads
		t.Fatal(err)
	}
	before := origin.Stats().Loads
	cfg.Keys, cfg.Count = "zipf:0.9:200", 1500
	r := run(t, cfg)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if r.Requests != 1500 || r.Verified != 1500 || r.NotFound != 0 {
		t.Errorf("%d requests, %d verified, %d not found; want 1500, 1500, 0", r.Requests, r.Verified, r.NotFound)
	}
	if r.OriginLoads == nil || *r.OriginLoads != origin.Stats().Loads-before {
		t.Errorf("origin loads %v, the origin says %d", r.OriginLoads, origin.Stats().Loads-before)
	}
	if len(r.Books.NotChecked) > 0 {
		t.Errorf("not checked: %v", r.Books.NotChecked)
	}
	for _, n := range c.Nodes {
		if got := r.PerNode[n.ID]; got != 500 && r.Retries == 0 {
			t.Errorf("%d requests entered through %s, want a third of 1500", got, n.ID)
		}
	}
	if len(r.PerOwner) != 3 || sum(r.PerOwner) != 1500 {
		t.Errorf("per owner: %v", r.PerOwner)
	}
	// On a very busy machine nodes seem silent, and a load's answer may be
	// lost.
	loads, calm := r.Answers["load"]+r.Behind["load"], r.Retries == 0 && len(r.Marked) == 0
	if loads > *r.OriginLoads || calm && loads != *r.OriginLoads {
		t.Errorf("%d answers came by a load, the origin saw %d", loads, *r.OriginLoads)
	}
	if want := 1 - float64(loads)/float64(r.Gets); math.Abs(*r.HitRatio-want) > 1e-9 {
		t.Errorf("hit ratio %v with %d loads of %d reads", *r.HitRatio, loads, r.Gets)
	}
	joined := r.Answers["joined"] + r.Behind["joined"]
	if want := 1 - float64(loads+joined)/float64(r.Gets); math.Abs(*r.UnwaitedRatio-want) > 1e-9 {
		t.Errorf("unwaited ratio %v with %d loads that %d of %d reads waited for, too", *r.UnwaitedRatio, loads, joined, r.Gets)
	}
}

// The books cover all nodes of the cluster, not only the entry nodes: the
// others are asked at the addresses that the cluster lists.
func TestBooksOfNodesThatAreNotEntered(t *testing.T) {
	_, _, cfg := startCluster(t, 3, demo.Control{Version: "1", Size: 50})
	cfg.Nodes, cfg.Keys, cfg.Count = cfg.Nodes[:1], "uniform:100", 300
	r := run(t, cfg)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if !r.Books.Balanced || len(r.Books.NotChecked) > 0 || len(r.PerOwner) != 3 {
		t.Errorf("books %+v, owners %v", r.Books, r.PerOwner)
	}
}

func warm(t *testing.T, c *nodetest.Cluster, key string) error {
	t.Helper()
	if got := c.Get(c.Nodes[0], "/v1/cache/docs/"+key); got.Status != http.StatusOK {
		return fmt.Errorf("status %d", got.Status)
	}
	return nil
}

func TestWritesAreChecked(t *testing.T) {
	_, _, cfg := startCluster(t, 3, demo.Control{Version: "1"})
	for _, group := range []string{"docs", "kv"} {
		cfg.Group, cfg.Keys, cfg.Count, cfg.Write, cfg.Delete = group, "uniform:20", 3000, 0.3, 0.1
		r := run(t, cfg)
		if err := r.Err(); err != nil && len(r.Marked) == 0 {
			t.Errorf("%s: %v", group, err)
		}
		if r.Puts < 700 || r.Puts > 1100 || r.Deletes < 200 || r.Deletes > 400 {
			t.Errorf("%s: %d puts, %d deletes of 3000", group, r.Puts, r.Deletes)
		}
		if r.Verified == 0 || group == "kv" && r.Answers["negative"]+r.Behind["negative"] != r.NotFound {
			t.Errorf("%s: %d verified, %d not found, answers %v, behind %v", group, r.Verified, r.NotFound, r.Answers, r.Behind)
		}
	}
}

// Missing keys are answers; failing loads are errors.
func TestFailingOrigin(t *testing.T) {
	_, origin, cfg := startCluster(t, 2, demo.Control{Version: "1", Missing: missing(t, "[13579]$")})
	cfg.Keys, cfg.Count = "uniform:100", 400
	r := run(t, cfg)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if r.NotFound == 0 || r.Verified != r.Requests-r.NotFound {
		t.Errorf("%d not found, %d verified of %d", r.NotFound, r.Verified, r.Requests)
	}
	if err := origin.SetControl(demo.Control{ErrorRate: 1}); err != nil {
		t.Fatal(err)
	}
	cfg.Keys, cfg.Count = writeKeys(t, "new-1", "new-2"), 20
	r = run(t, cfg)
	if !errors.Is(r.Err(), loadgen.ErrWrong) || r.Errors != 20 || r.ErrorsByCode["origin-failed"] != 20 {
		t.Errorf("got %v, errors %v", r.Err(), r.ErrorsByCode)
	}
	if !r.Books.Balanced || len(r.Books.NotChecked) > 0 {
		t.Errorf("books: %+v", r.Books)
	}
}

func missing(t *testing.T, pattern string) demo.Missing {
	t.Helper()
	m, err := demo.ParseMissing(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Every kind of lie of an origin is found.
func TestLyingOriginIsFoundOut(t *testing.T) {
	for name, lie := range map[string]func(text string) string{
		"another key":     func(s string) string { return strings.Replace(s, `"key":"key-`, `"key":"kez-`, 1) },
		"another version": func(s string) string { return strings.Replace(s, `"version":"1"`, `"version":"2"`, 1) },
		"changed pad":     func(s string) string { return strings.Replace(s, `"pad":"`, `"pad":"x`, 1) },
		"short":           func(s string) string { return s[:len(s)/2] },
		"no hash":         func(s string) string { return strings.Replace(s, `"sha256"`, `"sha"`, 1) },
		"two documents":   func(s string) string { return s + s },
		"nothing":         func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			c, origin, cfg := startCluster(t, 1, demo.Control{Version: "1", Size: 20})
			c.Origin.Answer(func(w http.ResponseWriter, r *http.Request) {
				honest := httptest.NewRecorder()
				origin.ServeHTTP(honest, r)
				w.Header().Set("Content-Type", "application/json")
				body := honest.Body.String()
				if strings.HasSuffix(r.URL.Path, "7") { // one key in ten
					body = lie(body)
				}
				if _, err := w.Write([]byte(body)); err != nil {
					t.Errorf("answer: %v", err)
				}
			})
			cfg.Keys, cfg.Count = "uniform:10", 200
			r := run(t, cfg)
			if !errors.Is(r.Err(), loadgen.ErrWrong) || r.VerifyFailed == 0 || r.VerifyFailed >= r.Verified/2 {
				t.Errorf("%v: %d of %d failed, want about a tenth", r.Err(), r.VerifyFailed, r.Verified)
			}
			if r.Errors != 0 || !slices.ContainsFunc(r.Samples, func(s string) bool { return strings.Contains(s, `"key-7"`) }) {
				t.Errorf("%d errors, samples %q", r.Errors, r.Samples)
			}
			cfg.Verify = false
			if r = run(t, cfg); r.Err() != nil {
				t.Errorf("without verification: %v", r.Err())
			}
		})
	}
}

func writeKeys(t *testing.T, keys ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "t.keys")
	if err := writeFile(name, strings.Join(keys, "\n")); err != nil {
		t.Fatal(err)
	}
	return name
}

// A file of keys is read once, in its order, and its keys are sent unchanged.
func TestTraceIsReplayedOnce(t *testing.T) {
	c, _, cfg := startCluster(t, 2, demo.Control{Version: "1"})
	keys := []string{"a b", "a+b", "a/b", "a%2Fb", "?q#f", "😀", "//x", "a b"}
	cfg.Keys = writeKeys(t, keys...)
	r := run(t, cfg)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if r.Requests != int64(len(keys)) {
		t.Errorf("%d requests, want %d", r.Requests, len(keys))
	}
	for _, k := range keys {
		if n := c.Origin.Loads(k); n < 1 || n > 1 && len(r.Marked) == 0 {
			t.Errorf("%q was loaded %d times", k, n)
		}
	}
}

// The sizes in a file of keys are those of the put values.
func TestSizesOfATraceAreKept(t *testing.T) {
	c, _, cfg := startCluster(t, 1, demo.Control{Version: "1"})
	cfg.Group, cfg.Write, cfg.Keys = "kv", 1, writeKeys(t, "a\t5", "b\t3000", "c", "d\t0")
	if err := run(t, cfg).Err(); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]int{"a": 5, "b": 3000, "c": cfg.ValueSize, "d": 0} {
		var got struct{ Pad string }
		answer := c.Get(c.Nodes[0], "/v1/cache/kv/"+key)
		if err := json.Unmarshal([]byte(answer.Body), &got); err != nil || len(got.Pad) != want {
			t.Errorf("%s: %v, %d bytes, want %d", key, err, len(got.Pad), want)
		}
	}
}

// Ctrl-C while the first books are read still gives a report.
func TestInterruptedBeforeItBegins(t *testing.T) {
	_, _, cfg := startCluster(t, 1, demo.Control{Version: "1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := loadgen.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || r.Requests != 0 || r.Errors != 0 || r.Err() == nil || len(r.Books.NotChecked) == 0 || r.OriginLoads != nil {
		t.Errorf("%+v: %v", r, r.Err())
	}
	if b, err := json.Marshal(r); err != nil || r.WriteText(io.Discard) != nil || r.WriteHTML(io.Discard) != nil {
		t.Errorf("%v: %s", err, b)
	}
}

func TestKilledNodeIsNoError(t *testing.T) {
	c, _, cfg := startCluster(t, 3, demo.Control{Version: "1"})
	cfg.Keys, cfg.Duration = "uniform:300", time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type outcome struct {
		r   *loadgen.Result
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := loadgen.Run(ctx, cfg)
		done <- outcome{r, err}
	}()
	nodetest.Eventually(t, "the run is under way", func() bool { return c.Origin.Total() > 200 })
	c.Nodes[1].Kill()
	before := c.Books(c.Nodes[0]).Gets
	nodetest.Eventually(t, "the run goes on", func() bool { return c.Books(c.Nodes[0]).Gets > before+1000 })
	cancel() // Ctrl-C
	var o outcome
	select {
	case o = <-done:
	case <-time.After(patience):
		t.Fatalf("the interrupted run did not end within %v", patience)
	}
	if o.err != nil {
		t.Fatal(o.err)
	}
	checkResult(t, o.r)
	// Kill breaks the connections one after another. So for requests in flight
	// the dying node may still report that it cannot reach its origin.
	last := o.r.ErrorsByCode["origin-failed"]
	if o.r.Errors != last || last > int64(cfg.Concurrency) || o.r.VerifyFailed > 0 || !o.r.Books.Balanced || !o.r.Interrupted {
		t.Errorf("errors %v, samples %q, books %+v, interrupted %v", o.r.ErrorsByCode, o.r.Samples, o.r.Books, o.r.Interrupted)
	}
	if o.r.Retries == 0 {
		t.Error("no retry was counted")
	}
	if !slices.ContainsFunc(o.r.Books.NotChecked, func(s string) bool { return strings.Contains(s, "kring-2") }) {
		t.Errorf("the books of the dead are said to be checked: %+v", o.r.Books)
	}
	if o.r.Books.State != "not checked" || !slices.Equal(o.r.Books.Silent, []string{"kring-2"}) || o.r.Outcome == loadgen.Well {
		t.Errorf("outcome %s, findings %q, books %+v; want kring-2 among those that did not answer", o.r.Outcome, o.r.Findings, o.r.Books)
	}
}

func TestUnreachableNodes(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	cfg := loadgen.DefaultConfig()
	cfg.Nodes, cfg.Group, cfg.Count = []string{s.URL}, "docs", 1
	if _, err := loadgen.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "no node answered") {
		t.Errorf("got %v", err)
	}
}

// An entry node that is no member's URL is checked, too.
func TestEntryNodeThatIsNotThere(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, _, cfg := startCluster(t, 1, demo.Control{Version: "1"})
	cfg.Nodes, cfg.Count = append(cfg.Nodes, gone.URL), 60
	r := run(t, cfg)
	if r.Err() != nil || r.Outcome != loadgen.Doubtful || r.Retries == 0 || !slices.Equal(r.Books.Silent, []string{gone.URL}) {
		t.Errorf("%s, %q, %d retries, silent %q", r.Outcome, r.Findings, r.Retries, r.Books.Silent)
	}
}

// The documented names, with the right kinds of values.
func TestJSON(t *testing.T) {
	_, _, cfg := startCluster(t, 1, demo.Control{Version: "1"})
	cfg.Count = 50
	text, err := json.Marshal(run(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Requests     *int64             `json:"requests"`
		Errors       *int64             `json:"errors"`
		VerifyFailed *int64             `json:"verify_failed"`
		RPS          *float64           `json:"rps"`
		Latency      map[string]float64 `json:"latency_ms"`
		Answers      map[string]int64   `json:"answers"`
		PerNode      map[string]int64   `json:"per_node"`
		OriginLoads  *int64             `json:"origin_loads"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Requests == nil || *got.Requests != 50 || got.Errors == nil || got.VerifyFailed == nil || got.RPS == nil || got.OriginLoads == nil || got.PerNode["kring-1"] != 50 {
		t.Errorf("got %s", text)
	}
	for _, name := range []string{"p50", "p95", "p99", "p999", "max"} {
		if _, ok := got.Latency[name]; !ok {
			t.Errorf("latency_ms lacks %s", name)
		}
	}
	for _, name := range []string{"hit", "hot", "peer", "stale", "negative", "load"} {
		if _, ok := got.Answers[name]; !ok {
			t.Errorf("answers lacks %s", name)
		}
	}
}

func TestReportIsOnePage(t *testing.T) {
	_, _, cfg := startCluster(t, 1, demo.Control{Version: "1"})
	cfg.Count, cfg.Keys = 300, writeKeys(t, "<script>alert(1)</script>", "a")
	cfg.Command, cfg.Version = "kring load --keys '<b>'", "v1.2.3"
	r := run(t, cfg)
	checkPage(t, r, 1+2*min(1, len(r.Timeline)-1))
	for _, want := range []string{"kring load --keys &#39;&lt;b&gt;&#39;", "kring v1.2.3", r.Setup.Begun.Format("2 January 2006, 15:04:05")} {
		if !strings.Contains(pageOf(t, r), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

type page interface{ WriteHTML(out io.Writer) error }

func pageOf(t *testing.T, p page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// checkPage checks a page with this number of plots.
func checkPage(t *testing.T, p page, plots int) {
	t.Helper()
	text := pageOf(t, p)
	if n := strings.Count(text, "<polyline class=\"line0\" points=\"0,5"); n != plots {
		t.Errorf("%d plots, want %d", n, plots)
	}
	for _, bad := range []string{"src=", "href=", "url(", "@import", "NaN", "Inf", "<script"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page contains %s", bad)
		}
	}
}
