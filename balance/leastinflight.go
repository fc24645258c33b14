package balance

import (
	"context"
	"sync"
)

// leastInFlight takes the member with the fewest unfinished requests for its
// weight, and of equals the least recently chosen.
type leastInFlight struct {
	// mu guards turn, the number of the latest choice, and the tallies' turn.
	// Only a holder of mu adds to their outstanding.
	mu   sync.Mutex
	turn int64
}

func (l *leastInFlight) pick(_ context.Context, s *set) (choice, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	best := &s.seats[0]
	least := best.m.outstanding.Load() * best.step
	for i := range s.seats[1:] {
		next := &s.seats[i+1]
		if load := next.m.outstanding.Load() * next.step; load < least || load == least && next.m.turn < best.m.turn {
			best, least = next, load
		}
	}
	l.turn++
	best.m.turn = l.turn
	best.m.outstanding.Add(1)
	return choice{m: best.m}, nil
}

func (l *leastInFlight) release(c choice) { c.m.outstanding.Add(-1) }

func (l *leastInFlight) enter([]*member, *set) {}

func (l *leastInFlight) reset([]*member, uint64) {}
