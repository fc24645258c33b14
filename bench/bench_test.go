//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kring/config"
)

func TestReportsJSON(t *testing.T) {
	r := Report{
		Results: []Row{
			{Work: workHit + oneCore, Contestant: kring, RPS: 100, P50: 1, P99: 2, CPU: 11, Rounds: 5},
			{Work: workHit + oneCore, Contestant: bareGin, RPS: 110, P50: 1, P99: 2, CPU: 10, Rounds: 5},
			{Work: workPeer, Contestant: kring, RPS: 100, P50: 1, P99: 2, CPU: 11, Rounds: 5},
			{Work: workPeer, Contestant: http1Peers, RPS: 100, P50: 1, P99: 2, CPU: 11, Rounds: 5},
		},
	}
	r.addGoals()
	file := filepath.Join(t.TempDir(), "out.json")
	if err := r.writeJSON(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	row := map[string]any{
		"work": "hit at the owner, one core", "contestant": "kring", "rps": 100.0, "p50_us": 1.0, "p99_us": 2.0,
		"cpu_us": 11.0, "rounds": 5.0,
	}
	if diff := cmp.Diff(row, got["results"][0]); diff != "" {
		t.Error(diff)
	}
	goals := []map[string]any{
		{
			"work": "hit at the owner, one core", "metric": "cpu_us", "peer": "gin", "want": 1.15, "ratio": 1.1, "met": true, "bound": "",
		},
		{
			"work": "entry node to owner", "metric": "rps", "peer": "kring-http1-peers", "want": 1.8, "ratio": 1.0, "met": false,
			"bound": boundPeer,
		},
	}
	if diff := cmp.Diff(goals, got["goals"]); diff != "" {
		t.Error(diff)
	}
	var table bytes.Buffer
	if err := r.writeTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Hit at the owner, one core", "NOT MET  entry node to owner: rps beside kring-http1-peers is 1.000, wanted ≥ 1.800", boundPeer} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is missing in\n%s", want, table.String())
		}
	}
}

// Readers of the JSON may iterate over both lists, whatever was measured.
func TestReportsJSONOfNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	if err := new(Report).writeJSON(file); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Join(strings.Fields(string(text)), "") != `{"results":[],"goals":[]}` {
		t.Errorf("%v: %s", err, text)
	}
}

func TestABoundIsASentence(t *testing.T) {
	l := loaded{Requests: 10, Errors: 1, VerifyFailed: 2}
	if got := l.wrong(); got != "Of 10 requests 1 failed, and 2 bodies were wrong." {
		t.Error(got)
	}
	l.Books.Wrong = []string{"a", "b"}
	if got := l.wrong(); got != "Of 10 requests 1 failed, and 2 bodies were wrong; the books do not balance: a; b." {
		t.Error(got)
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		metric      string
		kring, peer float64
		want        float64
		met         bool
	}{
		{"rps", 180, 100, 1.8, true},
		{"rps", 179, 100, 1.8, false},
		{"cpu_us", 115, 100, 1.15, true},
		{"cpu_us", 116, 100, 1.15, false},
		{"errors", 0, 1, 0, true},
		{"errors", 1, 1, 0, false},
	} {
		g := Goal{Metric: tc.metric, Want: tc.want, Bound: "why"}
		g.judge(tc.kring, tc.peer)
		if g.Met != tc.met || (g.Bound == "") != tc.met {
			t.Errorf("%+v: %+v", tc, g)
		}
	}
}

func TestEveryGoalHasItsWork(t *testing.T) {
	contestants := map[string][]string{}
	for _, w := range works() {
		contestants[w.name] = w.contestants
	}
	for _, g := range goals() {
		if contestants[strings.TrimSuffix(g.Work, oneCore)] == nil {
			t.Errorf("nothing measures %q", g.Work)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{0: {}, 2: {3, 2, 1}, 2.5: {4, 1, 3, 2}, 7: {7}} {
		if got := medianOf(values); got != want {
			t.Errorf("median of %v: %v, want %v", values, got, want)
		}
	}
}

func TestSimulate(t *testing.T) {
	for _, tc := range []struct {
		trace   string
		entries int
		want    float64
	}{
		{"a\na\na\nb\n", 1, 0.5},
		{"a\t10\na\t20\n\nb\nb", 2, 0.5},
		{"a\nb\na\nb\n", 1, 0},
		{"a\nb\na\nc\na\nb\n", 2, 1.0 / 3}, // b is older than a when c arrives
	} {
		got, err := simulate(strings.NewReader(tc.trace), tc.entries)
		if err != nil || got != tc.want {
			t.Errorf("%q with %d entries: %v, %v; want %v", tc.trace, tc.entries, got, err, tc.want)
		}
	}
	if _, err := simulate(strings.NewReader("\n"), 1); err == nil {
		t.Error("an empty trace is no error")
	}
	if _, err := simulate(strings.NewReader("a"), 0); err == nil {
		t.Error("an LRU of nothing is no error")
	}
}

func TestParseStat(t *testing.T) {
	for _, tc := range []struct {
		line        string
		pid, parent int
		ok          bool
	}{
		{"12 (nginx) S 7 12 12 0", 12, 7, true},
		{"12 (a) b (c) R 1) S 7 12", 12, 7, true},
		{"12 (nginx", 0, 0, false},
		{"12 (nginx) S", 0, 0, false},
		{"", 0, 0, false},
	} {
		if pid, parent, ok := parseStat(tc.line); ok != tc.ok || ok && (pid != tc.pid || parent != tc.parent) {
			t.Errorf("%q: %d, %d, %v", tc.line, pid, parent, ok)
		}
	}
}

// The template gives the nodes the intended configuration.
func TestKringsTemplate(t *testing.T) {
	cfg := settings{
		Dir: t.TempDir(), Number: 2, Node: "kring-2", Listen: "127.0.0.1:9002", Peers: []string{"127.0.0.1:9001", "127.0.0.1:9002"},
		Origin: "127.0.0.1:9100", Path: "/v1/cache/docs/{key}", Bytes: memory, ValueBytes: 1 << 20,
	}
	file, err := write(cfg, "kring.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := l.Config
	if c.Node.ID != "kring-2" || c.Cache.MaxBytes != memory || c.Groups[0].Jitter != 0 || c.Groups[0].RespectCacheControl {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff([]string{"kring-1=http://127.0.0.1:9001", "kring-2=http://127.0.0.1:9002"}, c.Cluster.Peers); diff != "" {
		t.Error(diff)
	}
}

// Each node of each contestant owns keys, and every key has one owner.
func TestOwnership(t *testing.T) {
	for _, name := range []string{kring, http1Peers, groupcached, gcDefault} {
		owner := ownership(&team{name: name, addrs: []string{"127.0.0.1:9001", "127.0.0.1:9002", "127.0.0.1:9003"}})
		keys := map[int]int{}
		for i := range keyCount {
			keys[owner(keyNumber(i))]++
		}
		if len(keys) != 3 || keys[0] == 0 || keys[1] == 0 || keys[2] == 0 {
			t.Errorf("%s: keys by node: %v", name, keys)
		}
	}
}

func TestBinaryBatch(t *testing.T) {
	body, err := encodeBinary([]string{"a", "bc"})
	if err != nil || string(body) != "\x01\x01\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x02bc" {
		t.Errorf("%q, %v", body, err)
	}
	text := func(s string) string { return string([]byte{0, 0, 0, byte(len(s))}) + s }
	answer := "\x01\x00\x00\x00\x01" + "\x00\xc8\x00\x00\x00\x07" +
		text("a") + text("") + text("text/plain") + text("") + text(`"e"`) + text("value")
	got, err := decodeBinary([]byte(answer))
	if diff := cmp.Diff([]batchEntry{{Key: "a", Status: 200, Age: 7, Value: "value"}}, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if n := strings.Count(answer, string(forms[1].mark)); n != 1 {
		t.Errorf("the mark is there %d times", n)
	}
	for i := range answer {
		if _, err := decodeBinary([]byte(answer[:i])); err == nil {
			t.Errorf("%d bytes are no error", i)
		}
	}
	if _, err := decodeBinary([]byte(answer + "x")); err == nil {
		t.Error("a byte too many is no error")
	}
}
