package balance

import (
	"context"
	"slices"
	"sync"
)

// maxScore is the greatest count: the shared one is kept in a sorted set of
// Redis, whose scores are exact up to here.
const maxScore = 1<<53 - 1

// leastAssigned takes the member that was assigned to least often, the first
// by name (byte order) of equals. An assignment adds the member's step to its
// score, 1 where all weights are equal. It is about nothing else: not how long
// requests take, how many are under way, or how they end.
type leastAssigned struct {
	// mu guards the tallies' score, and members: all that the pool has.
	mu      sync.Mutex
	members []*member
}

func (l *leastAssigned) pick(_ context.Context, s *set) (choice, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	best := &s.seats[0]
	least := best.m.score.Load()
	for i := range s.seats[1:] {
		next := &s.seats[i+1]
		if score := next.m.score.Load(); score < least || score == least && next.rank < best.rank {
			best, least = next, score
		}
	}
	if least > maxScore-best.step {
		l.rebaseLocked(least)
		least = 0
	}
	best.m.score.Store(least + best.step)
	return choice{m: best.m}, nil
}

// rebaseLocked takes from all scores what the least has. Who has less than
// that is away, and starts from the least when it comes back anyway.
func (l *leastAssigned) rebaseLocked(least int64) {
	for _, m := range l.members {
		m.score.Store(max(0, m.score.Load()-least))
	}
}

func (l *leastAssigned) release(choice) {}

// enter starts those who come (back) at what the others have at least: from
// less, they would get every assignment until they have caught up.
func (l *leastAssigned) enter(entering []*member, s *set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	least, found := int64(0), false
	for i := range s.seats {
		m := s.seats[i].m
		if score := m.score.Load(); !slices.Contains(entering, m) && (!found || score < least) {
			least, found = score, true
		}
	}
	if !found {
		return
	}
	for _, m := range entering {
		m.score.Store(admitted(m.score.Load(), least))
	}
}

// admitted is the score at which a member starts that had one, among members
// that have this at least.
func admitted(own, least int64) int64 {
	if own-least > maxScore/2 {
		return least // the others were rebased while it was away
	}
	return max(own, least)
}

func (l *leastAssigned) reset(members []*member, _ uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = slices.Clone(members)
}
