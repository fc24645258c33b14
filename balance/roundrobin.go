package balance

import (
	"context"
	"sync"
)

// roundRobin takes the members in turn, whatever their weights (0 is never in
// the set).
type roundRobin struct {
	// mu guards next: the place in the configuration's order from which the
	// next member is looked for. Counting places, not positions in the set,
	// keeps the turn when members come and go.
	mu   sync.Mutex
	next int
}

func (r *roundRobin) pick(_ context.Context, s *set) (*member, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := from(s, r.next)
	r.next = m.order + 1
	return m, nil
}

func (r *roundRobin) reset([]*member) {}

// from is the first member at or after a place in the configuration's order,
// the first of all if there is none.
func from(s *set, order int) *member {
	for _, m := range s.members {
		if m.order >= order {
			return m
		}
	}
	return s.members[0]
}
