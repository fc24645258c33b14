package loadgen

import "testing"

func TestOneForEachFlight(t *testing.T) {
	for _, tt := range []struct {
		name    string
		loads   int64
		retries int64
		marked  map[string]int64
		want    bool
	}{
		{"two flights", 2, 0, nil, true},
		{"one flight was not the origin's", 1, 0, nil, false},
		{"a load without a request", 3, 0, nil, false},
		{"a client turned to another node", 3, 1, nil, true},
		{"a node turned to another", 4, 0, map[string]int64{"stand-in": 2}, true},
		{"more than who turned to another", 5, 1, map[string]int64{"stand-in": 1}, false},
	} {
		r := &Result{Answers: map[string]int64{"load": 1, "joined": 8}, Behind: map[string]int64{"load": 1}, Retries: tt.retries, Marked: tt.marked}
		if got := r.oneForEachFlight(tt.loads); got != tt.want {
			t.Errorf("%s: %d loads: %v", tt.name, tt.loads, got)
		}
	}
}
