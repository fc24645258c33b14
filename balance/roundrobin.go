package balance

import (
	"context"
	"sync"
)

// roundRobin takes the members in turn. Weights do not count (a member of
// weight 0 is never in the set).
type roundRobin struct {
	turns
	// mu guards next: the place in the configuration's order at which the
	// search for the next member begins. A place, not a position in the set,
	// keeps the turn when members come and go.
	mu   sync.Mutex
	next int
}

func (r *roundRobin) pick(_ context.Context, s *set) (choice, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := from(s, r.next).m
	r.next = m.order + 1
	return choice{m: m}, nil
}

func (r *roundRobin) reset([]*member, uint64) {}

// from is the first seat at or after a place in the configuration's order.
// After the last seat it is the first one.
func from(s *set, order int) *seat {
	for i := range s.seats {
		if s.seats[i].m.order >= order {
			return &s.seats[i]
		}
	}
	return &s.seats[0]
}
