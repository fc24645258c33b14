package loadgen

import (
	"testing"

	"kring/client"
)

func TestSince(t *testing.T) {
	at := func(loads ...int64) (w windows) {
		for i, n := range loads {
			if n > 0 {
				w.Windows = append(w.Windows, window{Number: int64(100 + i), Loads: n})
			}
		}
		return w
	}
	for _, tt := range []struct {
		name          string
		loads         []int64
		total, filled int64
		peak          float64
	}{
		{"nothing", nil, 0, 0, 0},
		{"what was before does not count", []int64{50, 50}, 0, 0, 0},
		{"spread", []int64{0, 0, 10, 20, 30, 10}, 70, 4, 30},
		{"all at once", []int64{0, 0, 0, 0, 1000}, 1000, 1, 1000},
		{"a machine that stood still", []int64{0, 0, 20, 0, 0, 60, 20}, 100, 3, 20},
	} {
		b := since(at(tt.loads...), 101)
		if b.loads != tt.total || b.windows != tt.filled || b.peak != tt.peak {
			t.Errorf("%s: %+v", tt.name, b)
		}
	}
}

// A load of a stand-in is marked and does not count as waited for.
func TestLoadsOfStandInsAreNotWaitedFor(t *testing.T) {
	r := &run{cfg: &Config{}, recorder: newRecorder(2)}
	for i, status := range []string{
		"k-1; fwd=miss; fwd-status=200; stored", "k-1; fwd=miss; fwd-status=200; detail=stand-in", "k-1; hit; detail=stand-in",
		"k-2; fwd=miss; fwd-status=200; collapsed; detail=stand-in, k-1; fwd=miss; detail=peer:k-2", "k-1; fwd=miss; collapsed", "k-1; hit",
	} {
		if err := r.recorder.record(i%2, &sample{op: opGet, from: provenanceOf(status)}); err != nil {
			t.Fatal(err)
		}
	}
	if res := r.result(client.Counters{}); res.waited() != 2 || res.standIns != 2 || res.Marked["stand-in"] != 3 {
		t.Errorf("waited %d, stand-ins %d, marked %v", res.waited(), res.standIns, res.Marked)
	}
}
