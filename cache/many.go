package cache

import (
	"context"
	"sync"
	"sync/atomic"
)

// manyAtOnce bounds the keys of one batch that are waited for at a time.
const manyAtOnce = 64

// GetMany is one Get for each key, in the order of keys: a key's failure is
// its own.
func (c *Cache) GetMany(ctx context.Context, group string, keys []string) []Result {
	results := make([]Result, len(keys))
	g := c.groups[group]
	if g == nil {
		for i := range results {
			results[i] = Result{Answer: Answer{Node: c.node}, Err: ErrUnknownGroup}
		}
		return results
	}
	var rest []int // of keys, the indices of those that may have to wait
	for i, key := range keys {
		a, ok := c.hit(g, Key{Group: group, Key: key}, false)
		if !ok {
			rest = append(rest, i)
		}
		results[i].Answer = a
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(manyAtOnce, len(rest)) {
		workers.Go(func() {
			for n := next.Add(1); int(n) <= len(rest); n = next.Add(1) {
				i := rest[n-1]
				results[i].Answer, results[i].Err = c.miss(ctx, g, Key{Group: group, Key: keys[i]}, false)
			}
		})
	}
	workers.Wait()
	return results
}
