package balance

import (
	"context"
	"slices"
	"sync"
)

// maxScore is the greatest score. The shared score is in a sorted set of Redis,
// whose scores are exact up to here.
const maxScore = 1<<53 - 1

// leastAssigned takes the member with the lowest score, and of equals the first
// by name in byte order. An assignment adds the member's step to its score: 1
// where all weights are equal. The policy does not look at anything else: not
// at how long requests take, how many are in flight, or how they end.
type leastAssigned struct {
	// mu guards the tallies' score, and members, which are all members of the
	// pool.
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

// rebaseLocked subtracts the least score from all. A member with a lower score
// is away; it starts from the least score when it comes back.
func (l *leastAssigned) rebaseLocked(least int64) {
	for _, m := range l.members {
		m.score.Store(max(0, m.score.Load()-least))
	}
}

func (l *leastAssigned) release(choice) {}

// enter starts new and returning members at the least score of the others. From
// a lower score a member would get every assignment until it had caught up.
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

// admitted is the score at which a member with the score own starts among
// members whose lowest score is least.
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
