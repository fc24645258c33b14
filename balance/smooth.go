package balance

import (
	"context"
	"sync"
)

// smooth is nginx's smooth weighted round robin. Each pick adds every member's
// weight to its current weight, takes the greatest (the first of equals), and
// subtracts the total from it. 5/1/1 gives a a b a c a a. The sum of the
// current weights is 0 after each pick. After (sum of weights ÷ their greatest
// common divisor) picks each current weight is 0.
// (nginx, commit 52327e0627f4, ngx_http_upstream_round_robin.c)
type smooth struct {
	turns
	// mu guards generation and the members' current, which is their current
	// weight.
	mu         sync.Mutex
	generation uint64
}

func (r *smooth) pick(_ context.Context, s *set) (choice, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A set from before a reset has other members or weights. With it the sum
	// would not be 0 again until the next reset.
	if s.generation < r.generation {
		return choice{}, errOutdated
	}
	var best *member
	var most int64
	for i := range s.seats {
		m := s.seats[i].m
		current := m.current.Load() + s.seats[i].weight
		m.current.Store(current)
		if best == nil || current > most {
			best, most = m, current
		}
	}
	best.current.Store(most - s.total)
	return choice{m: best}, nil
}

func (r *smooth) reset(members []*member, generation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation = generation
	for _, m := range members {
		m.current.Store(0)
	}
}
