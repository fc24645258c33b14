package cache

import (
	"context"
	"sync"
	"sync/atomic"
)

// manyAtOnce bounds the keys of one batch that are waited for at a time.
const manyAtOnce = 64

// GetMany is one Get for each key, in the order of keys: a key's failure is
// its own. What is stored, here or elsewhere, is gathered first; only gets that
// need more have goroutines of their own.
func (c *Cache) GetMany(ctx context.Context, group string, keys []string) []Result {
	results := make([]Result, len(keys))
	g := c.groups[group]
	if g == nil {
		for i := range results {
			results[i] = Result{Answer: Answer{Node: c.node}, Err: ErrUnknownGroup}
		}
		return results
	}
	var missing []int // of keys, the indices
	elsewhere := make([]int, 0, len(keys))
	for i, key := range keys {
		term, self := c.router.Acts(key)
		if !self {
			elsewhere = append(elsewhere, i)
			continue
		}
		a, ok := c.hit(g, Key{Group: g.Name, Key: key}, term, false)
		if !ok {
			missing = append(missing, i)
		}
		results[i].Answer = a
	}
	missing = append(missing, c.gather(ctx, g, keys, elsewhere, results)...)

	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(manyAtOnce, len(missing)) {
		workers.Go(func() {
			for n := next.Add(1); int(n) <= len(missing); n = next.Add(1) {
				i := missing[n-1]
				key := Key{Group: g.Name, Key: keys[i]}
				term, self := c.router.Acts(key.Key)
				results[i].Answer, results[i].Err = c.miss(ctx, g, key, term, self, false)
			}
		})
	}
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
