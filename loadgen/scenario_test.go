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

// play plays a scenario against three nodes.
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
	v, _ := play(t, "stampede", func(cfg *loadgen.Config) { cfg.Count = 60 })
	passes(t, v, 9)
}

func TestBreakdown(t *testing.T) {
	v, _ := play(t, "breakdown", func(cfg *loadgen.Config) { cfg.Rate = 300 })
	passes(t, v, 7)
}

func TestAvalanche(t *testing.T) {
	v, _ := play(t, "avalanche", func(cfg *loadgen.Config) { cfg.Count = 1000 })
	// A machine that lets nobody run for a while has all that was due meanwhile
	// come at once. How loads are spread is tested in virtual time, in cache.
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

// A cluster that does not do what it must is found out.
func TestScenarioFailsWhereItMust(t *testing.T) {
	_, _, cfg := startCluster(t, 1, demo.Control{}, func(_ int, cfg *node.Config) {
		cfg.Groups[len(cfg.Groups)-1].RespectCacheControl = false // so that nothing expires
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

// Ctrl-C ends a scenario with what it had come to: what was checked until then
// counts, and what the interruption cut short is not held against the cluster.
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

// interruptAt calls then when a line begins with this.
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
