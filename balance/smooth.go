package balance

import (
	"context"
	"sync"
)

// smooth is nginx's smooth weighted round robin: each pick adds every member's
// weight to its current weight, takes the greatest (the first of equals), and
// subtracts the total from the one taken. 5/1/1 gives a a b a c a a. The sum
// of the current weights is 0 after each pick, and after (sum of weights ÷
// their greatest common divisor) picks each is 0.
// (nginx, commit 52327e0627f4, ngx_http_upstream_round_robin.c)
type smooth struct {
	// mu guards the members' current: their current weights.
	mu sync.Mutex
}

func (r *smooth) pick(_ context.Context, s *set) (*member, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *member
	var most int64
	for _, m := range s.members {
		current := m.current.Load() + m.weight
		m.current.Store(current)
		if best == nil || current > most {
			best, most = m, current
		}
	}
	best.current.Store(most - s.total)
	return best, nil
}

func (r *smooth) reset(members []*member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range members {
		m.current.Store(0)
	}
}
