package balance

import (
	"context"
	"sync"
)

// weighted is weighted round robin: a member is picked as often in a row as its
// weight says, then the next member has its turn. 5/1/1 gives a a a a a b c:
// right on average, but in bursts.
type weighted struct {
	turns
	// mu guards generation; at, the place in the configuration's order whose
	// turn it is; and the members' current, the rest of their turn (0 before it
	// begins).
	mu         sync.Mutex
	at         int
	generation uint64
}

func (w *weighted) pick(_ context.Context, s *set) (choice, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.generation < w.generation {
		return choice{}, errOutdated
	}
	next := from(s, w.at)
	m := next.m
	rest := m.current.Load()
	if rest == 0 {
		rest = next.weight
	}
	rest--
	m.current.Store(rest)
	w.at = m.order
	if rest == 0 {
		w.at++
	}
	return choice{m: m}, nil
}

// reset begins all turns anew, at the member whose turn it was.
func (w *weighted) reset(members []*member, generation uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.generation = generation
	for _, m := range members {
		m.current.Store(0)
	}
}
