package httpserver

import (
	"cmp"
	"slices"
	"time"
)

// lookEvery is how often a budget under pressure looks at its clients.
const lookEvery = 250 * time.Millisecond

// relieve looks how long clients have been quiet. It turns away the quietest,
// as many as it takes to let in those that wait.
func (b *Budget) relieve() {
	if !b.looking.TryLock() {
		return
	}
	defer b.looking.Unlock()
	now := time.Now()
	if now.Sub(b.looked) < lookEvery {
		return
	}
	b.looked = now

	type candidate struct {
		share *Share
		quiet time.Duration
	}
	var candidates []candidate
	b.mu.Lock()
	need := b.used + b.reserve - b.max
	for at := b.queue.Front(); at != nil; at = at.Next() {
		need += min(at.Value.(*waiter).bytes, b.max)
	}
	for s := range b.shares {
		if s.turnedAway {
			need -= s.weightLocked() // this is about to be free
			continue
		}
		candidates = append(candidates, candidate{share: s})
	}
	b.mu.Unlock()
	for i := range candidates {
		candidates[i].quiet = b.quiet(candidates[i].share.conn, now)
	}
	slices.SortFunc(candidates, func(x, y candidate) int { return cmp.Compare(y.quiet, x.quiet) })
	for _, c := range candidates {
		if need <= 0 || c.quiet < b.quietAfter {
			return
		}
		b.mu.Lock()
		_, there := b.shares[c.share]
		if there {
			c.share.turnedAway = true
			need -= c.share.weightLocked()
		}
		b.mu.Unlock()
		if there {
			b.turnedAway.Add(1)
			b.turnAway(c.share.conn)
		}
	}
}
