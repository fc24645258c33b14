package loadgen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"kring/loadgen"
	"kring/node"
	"kring/origin/demo"
)

// play runs a scenario against three nodes.
func play(t *testing.T, name string, change func(cfg *loadgen.Config)) (*loadgen.Verdict, *demo.Server) {
	t.Helper()
	_, origin, cfg := startCluster(t, 3, demo.Control{Version: "1", Size: 10})
	change(&cfg)
	before := origin.Control()
	v, err := loadgen.RunScenario(t.Context(), name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := v.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &text)
	if origin.Control() != before {
		t.Errorf("the origin is left with %+v", origin.Control())
	}
	for _, p := range v.Phases {
		checkResult(t, p.Result)
	}
	return v, origin
}

func passes(t *testing.T, v *loadgen.Verdict, checks int) {
	t.Helper()
	if err := v.Err(); err != nil || !v.Passed {
		t.Errorf("%v, passed %v", err, v.Passed)
	}
	if len(v.Checks) < checks {
		t.Errorf("only %d checks", len(v.Checks))
	}
}

// The rows of the fault table, each with its counts.
func TestStampede(t *testing.T) {
	v, _ := play(t, "stampede", func(cfg *loadgen.Config) { cfg.Count, cfg.Command = 60, "kring load --scenario stampede" })
	passes(t, v, 9)
	plots := 0
	for _, p := range v.Phases {
		if p.Result.Requests > 1 {
			plots++
		}
		if len(p.Result.Timeline) > 1 {
			plots += 2
		}
	}
	checkPage(t, v, plots)
	for _, want := range []string{"<pre>kring load --scenario stampede</pre>", "passed", ">cold key: loads<", "<h2>expired key, stale allowed, 60 clients</h2>"} {
		if !strings.Contains(pageOf(t, v), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestBreakdown(t *testing.T) {
	var progress bytes.Buffer
	v, _ := play(t, "breakdown", func(cfg *loadgen.Config) { cfg.Rate, cfg.Progress = 300, &progress })
	passes(t, v, 7)
	if text := progress.String(); !strings.Contains(text, "breakdown: hot key at 300 a second, stale allowed\n") || !strings.Contains(text, " req/s, p50 ") {
		t.Errorf("the progress shows no phase, or not how it goes on: %q", text)
	}
}

func TestAvalanche(t *testing.T) {
	v, _ := play(t, "avalanche", func(cfg *loadgen.Config) { cfg.Count = 1000 })
	// After a pause of a busy machine all delayed requests arrive at once. A
	// test in cache checks in virtual time how loads are spread.
	const spread = "the origin's busiest tenth of a second"
	n := len(v.Checks)
	v.Checks = slices.DeleteFunc(v.Checks, func(c loadgen.Check) bool { return c.What == spread })
	if len(v.Checks) != n-1 {
		t.Errorf("%q is not among the checks", spread)
	}
	v.Passed = v.Err() == nil
	passes(t, v, 6)
}

func TestPenetration(t *testing.T) {
	v, origin := play(t, "penetration", func(cfg *loadgen.Config) { cfg.Count = 1000 })
	passes(t, v, 9)
	if s := origin.Stats(); s.Missing > 1000+20*50 {
		t.Errorf("%+v", s)
	}
}

func TestPenetrationWithADeadNode(t *testing.T) {
	c, _, cfg := startCluster(t, 3, demo.Control{Version: "1", Size: 10})
	c.Nodes[2].Kill()
	cfg.Count, cfg.Nodes = 200, cfg.Nodes[:2]
	v, err := loadgen.RunScenario(t.Context(), "penetration", cfg)
	if err != nil {
		t.Fatal(err)
	}
	passes(t, v, 8)
}

// A scenario fails for a cluster that breaks the rules.
func TestScenarioFailsWhereItMust(t *testing.T) {
	_, _, cfg := startCluster(t, 1, demo.Control{}, func(_ int, cfg *node.Config) {
		cfg.Groups[len(cfg.Groups)-1].RespectCacheControl = false // so nothing expires
	})
	cfg.Count = 8
	v, err := loadgen.RunScenario(t.Context(), "stampede", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if v.Passed || !errors.Is(v.Err(), loadgen.ErrWrong) {
		t.Errorf("passed: %+v", v.Checks)
	}
	var text bytes.Buffer
	if err := v.WriteText(&text); err != nil || !strings.Contains(text.String(), "  WRONG expired key: loads: 1 (must be 2") || !strings.HasSuffix(text.String(), "verdict FAILED\n") {
		t.Errorf("%v\n%s", err, &text)
	}
	if b, err := json.Marshal(v); err != nil || !strings.Contains(string(b), `"passed":false`) {
		t.Errorf("%v %s", err, b)
	}
}

// A group whose values are not the demo origin's is refused before a scenario
// begins.
func TestScenarioOfAGroupThatIsNotTheOrigins(t *testing.T) {
	_, origin, cfg := startCluster(t, 1, demo.Control{Version: "1", Size: 10})
	before := origin.Control()
	var progress bytes.Buffer
	cfg.Count, cfg.Progress = 8, &progress
	for _, name := range loadgen.Scenarios() {
		cfg.Group = "kv"
		if v, err := loadgen.RunScenario(t.Context(), name, cfg); !errors.Is(err, loadgen.ErrUnfit) || !strings.Contains(err.Error(), `--group: "kv": `) {
			t.Errorf("%s of a plain group: %+v, %v", name, v, err)
		}
		cfg.Group = "none"
		if v, err := loadgen.RunScenario(t.Context(), name, cfg); err == nil || !strings.Contains(err.Error(), "--group: get: unknown-group") {
			t.Errorf("%s of an unknown group: %+v, %v", name, v, err)
		}
	}
	if progress.Len() > 0 || origin.Stats().Loads > 0 {
		t.Errorf("%d loads, progress %q", origin.Stats().Loads, &progress)
	}
	if origin.Control() != before {
		t.Errorf("the origin is left with %+v", origin.Control())
	}
}

// The books of a node that died between two phases cannot be checked. The
// verdict says so, in other words than for balanced books.
func TestScenarioSaysWhatWasNotChecked(t *testing.T) {
	c, _, cfg := startCluster(t, 3, demo.Control{Version: "1", Size: 10})
	c.Nodes[2].Kill()
	cfg.Count, cfg.Nodes = 8, cfg.Nodes[:2]
	v, err := loadgen.RunScenario(t.Context(), "stampede", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(v.Checks, func(c loadgen.Check) bool { return c.Skipped && strings.Contains(c.Got, "kring-3") }) {
		t.Errorf("no check is skipped for kring-3: %+v", v.Checks)
	}
	if !slices.ContainsFunc(v.Doubts, func(s string) bool { return strings.HasSuffix(s, "did not answer: kring-3") }) {
		t.Errorf("no doubt names kring-3: %q", v.Doubts)
	}
	var text bytes.Buffer
	if err := v.WriteText(&text); err != nil || strings.Contains(text.String(), "balanced") || !strings.Contains(text.String(), "  not checked books of the nodes and the origin: ") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// Ctrl-C ends a scenario with the checks made until then. What the interruption
// cut short is not counted against the cluster.
func TestScenarioIsInterrupted(t *testing.T) {
	_, origin, cfg := startCluster(t, 1, demo.Control{Version: "1", Size: 10})
	before := origin.Control()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	phases := &interruptAt{line: "stampede: failing origin", then: cancel}
	cfg.Count, cfg.Progress = 8, phases
	v, err := loadgen.RunScenario(ctx, "stampede", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Interrupted || v.Passed || v.Err() == nil || errors.Is(v.Err(), loadgen.ErrWrong) {
		t.Errorf("%+v: %v", v, v.Err())
	}
	for _, c := range v.Checks {
		if !c.Passed {
			t.Errorf("%+v", c)
		}
	}
	var text bytes.Buffer
	if err := v.WriteText(&text); err != nil || !strings.Contains(text.String(), "ok    cold key: loads: 1") || !strings.HasSuffix(text.String(), "verdict interrupted\n") {
		t.Errorf("%v\n%s", err, &text)
	}
	if !strings.HasPrefix(phases.String(), "stampede: cold key, 8 clients\n") {
		t.Errorf("progress: %s", phases)
	}
	if origin.Control() != before {
		t.Errorf("the origin is left with %+v", origin.Control())
	}
}

// interruptAt calls then when a text begins with line.
type interruptAt struct {
	bytes.Buffer
	line string
	then func()
}

func (w *interruptAt) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte(w.line)) {
		w.then()
	}
	return w.Buffer.Write(p)
}

func TestScenarioMistakes(t *testing.T) {
	_, _, cfg := startCluster(t, 1, demo.Control{})
	if _, err := loadgen.RunScenario(t.Context(), "flood", cfg); err == nil || !strings.Contains(err.Error(), "avalanche, breakdown, penetration, stampede") {
		t.Error(err)
	}
	cfg.Origin = ""
	if _, err := loadgen.RunScenario(t.Context(), "stampede", cfg); err == nil || !strings.Contains(err.Error(), "--origin") {
		t.Error(err)
	}
	cfg.Origin = cfg.Nodes[0]
	if _, err := loadgen.RunScenario(t.Context(), "stampede", cfg); err == nil || !strings.Contains(err.Error(), "is it the demo origin?") {
		t.Error(err)
	}
}
