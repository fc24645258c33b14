package cache

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// manyAtOnce bounds the keys of one batch that are waited for at a time.
	manyAtOnce = 64
	// manyAtFirst bounds them until one has shown that values are small, of at
	// most smallValue bytes. One that takes slowValue is likely a load: it lets
	// another begin, or slow ones would use up the time of all.
	manyAtFirst = 4
	smallValue  = 64 << 10
	slowValue   = 2 * time.Second
	// manyBytes is how much may come of what is stored here, and of what was
	// waited for, in one call; those under way come on top.
	manyBytes = 2 << 20
)

// Answered says whether GetMany has come to this result.
func (r *Result) Answered() bool { return r.Entry != nil || r.Err != nil }

// GetMany is one Get for each key, in the order of keys: a key's failure is
// its own. What is stored, here or elsewhere, is gathered first; only gets that
// need more have goroutines of their own.
//
// Large values are not all in memory at once: some results at the end may not
// be answered. Whoever has no more use for those before calls again with the
// same keys and results, and what is answered stays. Nil results are made.
func (c *Cache) GetMany(ctx context.Context, group string, keys []string, results []Result) []Result {
	if results == nil {
		results = make([]Result, len(keys))
	}
	g := c.groups[group]
	if g == nil {
		for i := range results {
			results[i] = Result{Answer: Answer{Node: c.node}, Err: ErrUnknownGroup}
		}
		return results
	}
	var missing []int // of keys, the indices
	stored := 0       // bytes that hits came to
	elsewhere := make([]int, 0, len(keys))
	for i, key := range keys {
		if results[i].Answered() {
			continue
		}
		term, self := c.router.Acts(key)
		if !self {
			elsewhere = append(elsewhere, i)
			continue
		}
		a, ok := c.hit(g, Key{Group: g.Name, Key: key}, term, false)
		if !ok {
			missing = append(missing, i)
			continue
		}
		results[i].Answer = a
		if stored += len(a.Entry.Value); stored >= manyBytes {
			break // what is evicted while it waits to be written is memory of nobody's
		}
	}
	missing = append(missing, c.gather(ctx, g, keys, elsewhere, results)...)

	slices.Sort(missing) // the first is the one that the caller waits for

	var next, bytes, hired atomic.Int64
	var workers sync.WaitGroup
	var work func()
	hire := func(n int) {
		for range n {
			if int(hired.Add(1)) > min(manyAtOnce, len(missing)) {
				return
			}
			workers.Go(work)
		}
	}
	work = func() {
		for bytes.Load() < manyBytes {
			n := int(next.Add(1))
			if n > len(missing) {
				return
			}
			i := missing[n-1]
			workers.Add(1) // for the timer, unless it is stopped
			slow := time.AfterFunc(slowValue, func() {
				defer workers.Done()
				hire(1)
			})
			key := Key{Group: g.Name, Key: keys[i]}
			term, self := c.router.Acts(key.Key)
			results[i].Answer, results[i].Err = c.miss(ctx, g, key, term, self, false)
			if slow.Stop() {
				workers.Done()
			}
			size := 0
			if e := results[i].Entry; e != nil {
				size = len(e.Value)
			}
			bytes.Add(int64(size))
			if size <= smallValue {
				hire(manyAtOnce)
			}
		}
	}
	hire(manyAtFirst)
	workers.Wait()
	return results
}

// gather asks for many keys of other nodes at once, and returns those that have
// no answer then.
func (c *Cache) gather(ctx context.Context, g *group, keys []string, elsewhere []int, results []Result) (left []int) {
	router, ok := c.router.(BatchRouter)
	if !ok || len(elsewhere) < 2 {
		return elsewhere
	}
	asked, wanted := make([]int, 0, len(elsewhere)), make([]string, 0, len(elsewhere))
	for _, i := range elsewhere {
		if g.checkKey(keys[i], c.config.MaxKeyBytes) != nil || !g.matches(keys[i]) {
			left = append(left, i)
			continue
		}
		asked, wanted = append(asked, i), append(wanted, keys[i])
	}
	for n, a := range router.ForwardMany(ctx, g.Name, wanted) {
		i := asked[n]
		if a.Entry == nil {
			left = append(left, i)
			continue
		}
		a.Kind = KindPeer
		p := g.books.page(c.store.hash(keys[i]))
		p.gets.Add(1)
		p.answered(a)
		results[i].Answer = a
	}
	return left
}
