package peers

import (
	"context"
	"slices"
	"sync"
	"time"

	"kring/cache"
)

// Purge has every other member drop a group, or, with tags, what carries one of
// them, and returns the ids of those that did not confirm it before ctx ended.
// A member at whose address nothing listens has nothing left to drop.
func (p *Peers) Purge(ctx context.Context, group string, tags []string) (unconfirmed []string) {
	var mu sync.Mutex // guards unconfirmed
	var calls sync.WaitGroup
	for _, pe := range p.ordered {
		calls.Go(func() {
			if !p.purgeAt(ctx, pe, group, tags) {
				mu.Lock()
				unconfirmed = append(unconfirmed, pe.id)
				mu.Unlock()
			}
		})
	}
	calls.Wait()
	slices.Sort(unconfirmed)
	return unconfirmed
}

func (p *Peers) purgeAt(ctx context.Context, pe *peer, group string, tags []string) bool {
	for range maxTries {
		if open, gone := pe.down(ctx); open {
			return gone
		}
		req := &Request{Request: cache.Request{Op: OpPurge, Key: cache.Key{Group: group}}, Hop: 1}
		if len(tags) > 0 {
			req.Op, req.Tags = OpPurgeTags, tags
		}
		r, err := p.try(ctx, pe, req)
		if err == nil {
			return r.Err == nil
		}
		if !NoAnswer(err) {
			return false
		}
	}
	open, gone := pe.down(ctx)
	return open && gone
}
