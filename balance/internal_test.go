package balance

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSteps(t *testing.T) {
	for _, tt := range []struct{ weights, want []int64 }{
		{[]int64{1, 1, 1}, []int64{1, 1, 1}},
		{[]int64{5, 1, 1}, []int64{1, 5, 5}},
		{[]int64{7, 7}, []int64{1, 1}},
		{[]int64{4, 2, 0}, []int64{1, 2, 0}},
		{[]int64{2, 3, 4}, []int64{6, 4, 3}},
		{[]int64{0, 0}, []int64{0, 0}},
		{nil, nil},
		{[]int64{math.MaxInt32, 1}, []int64{1, math.MaxInt32}},
	} {
		if got := steps(tt.weights); !slices.Equal(got, tt.want) {
			t.Errorf("steps of %v: %v, want %v", tt.weights, got, tt.want)
		}
	}
}

// For all weights, steps are positive, bounded, and smaller for greater
// weights. Where they are not rounded, step × weight is the same for all.
func TestStepsOfAnyWeights(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		weights := rapid.SliceOfN(rapid.Int64Range(1, math.MaxInt32), 1, 20).Draw(rt, "weights")
		all := steps(weights)
		for i, w := range weights {
			if all[i] < 1 || all[i] > maxStep {
				rt.Fatalf("step %d of weight %d", all[i], w)
			}
			for j, other := range weights {
				if w > other && all[i] > all[j] {
					rt.Fatalf("weights %d and %d have steps %d and %d", w, other, all[i], all[j])
				}
			}
		}
		small := rapid.SliceOfN(rapid.Int64Range(1, 12), 1, 8).Draw(rt, "small weights")
		all = steps(small)
		for i, w := range small {
			if all[i]*w != all[0]*small[0] {
				rt.Fatalf("steps of %v are %v: not exact", small, all)
			}
		}
	})
}

// Counts near 2^53 are lowered, and picks still alternate.
func TestLocalCountsAreRebased(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Name, cfg.Policy = "test", "least_assigned"
	for _, name := range []string{"a", "b", "c"} {
		cfg.Endpoints = append(cfg.Endpoints, EndpointConfig{Name: name, URL: "http://" + name, Weight: 1})
	}
	p, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.SetEligible("c", false)
	for _, m := range p.members[:2] {
		m.score.Store(maxScore - 1)
	}
	picked := ""
	for range 7 {
		got, err := p.Pick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		picked += got.Endpoint.Name
		got.Done(Success)
	}
	if picked != "abababa" {
		t.Errorf("picks %s, want abababa", picked)
	}
	if a, b := p.members[0].score.Load(), p.members[1].score.Load(); a != 3 || b != 2 {
		t.Errorf("counts %d and %d, want 3 and 2", a, b)
	}
	p.SetEligible("c", true)
	if c := p.members[2].score.Load(); c != 2 {
		t.Errorf("c starts at %d, want 2", c)
	}
	if got := admitted(maxScore, 5); got != 5 {
		t.Errorf("a count from before the rebase starts at %d, want 5", got)
	}
}
