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
		req := &request{Request: cache.Request{Op: opPurge, Key: cache.Key{Group: group}}, hop: 1}
		if len(tags) > 0 {
			req.Op, req.tags = opPurgeTags, tags
		}
		r, err := p.try(ctx, pe, req)
		if err == nil {
			return r.err == nil
		}
		if !failedTry(err) {
			return false
		}
	}
	open, gone := pe.down(ctx)
	return open && gone
}

// down says whether the circuit is open, and because nothing listens there. A
// process that is just ending may take one more connection, and breaks it: while
// there is no link, it waits a little for what the next attempt finds.
func (pe *peer) down(ctx context.Context) (open, gone bool) {
	timer := time.NewTimer(firstContact)
	defer timer.Stop()
	for {
		pe.p.mu.Lock()
		open, gone = pe.circuit.isOpen, pe.circuit.gone
		changed := pe.p.changed
		pe.p.mu.Unlock()
		if !open || gone || pe.link.Load() != nil {
			return open, gone
		}
		select {
		case <-changed:
		case <-timer.C:
			return open, gone
		case <-ctx.Done():
			return open, gone
		case <-pe.p.ctx.Done():
			return open, gone
		}
	}
}
