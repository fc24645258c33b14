package balance

import (
	"context"
	"sync"
)

// weighted is weighted round robin: as many picks in a row as a member's
// weight, then the next member. 5/1/1 gives a a a a a b c: right on average,
// and in bursts.
type weighted struct {
	// mu guards at, the place in the configuration's order whose turn it is,
	// and the members' current: what is left of their turn, 0 before it begins.
	mu sync.Mutex
	at int
}

func (w *weighted) pick(_ context.Context, s *set) (*member, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := from(s, w.at)
	left := m.current.Load()
	if left == 0 {
		left = m.weight
	}
	left--
	m.current.Store(left)
	w.at = m.order
	if left == 0 {
		w.at++
	}
	return m, nil
}

// reset begins all turns anew, at the member whose turn it was.
func (w *weighted) reset(members []*member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range members {
		m.current.Store(0)
	}
}
