package peers

import (
	"context"
	"slices"
	"sync"

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
		if open, gone := pe.down(); open {
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
	open, gone := pe.down()
	return open && gone
}

// down says whether the circuit is open, and because nothing listens there.
func (pe *peer) down() (open, gone bool) {
	pe.p.mu.Lock()
	defer pe.p.mu.Unlock()
	return pe.circuit.open, pe.circuit.gone
}
