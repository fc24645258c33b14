package loadgen

import "testing"

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
