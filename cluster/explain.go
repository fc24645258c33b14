package peers

import (
	"context"
	"sync"
	"time"

	"kring/cache"
)

// Explanation says why a key is where it is.
type Explanation struct {
	Group string `json:"group"`
	Key   string `json:"key"`
	// Hash is the key's place on the ring.
	Hash  uint32 `json:"hash"`
	Owner string `json:"owner"`
	// Owners are all members in the order in which they would act for the key.
	Owners []string `json:"owners"`
	// Acting is who acts for it now, as this node sees it.
	Acting string `json:"acting"`
	// Copies are those that the members have, this node's included.
	Copies []cache.Copy `json:"copies"`
	// Unreachable are the members that could not be asked.
	Unreachable []string `json:"unreachable,omitempty"`
	// LastLoad is the newest load of the key that a member remembers, or null.
	LastLoad *cache.LastLoad `json:"last_load"`
}

// explainWithin bounds the asking of the other members for their copies.
const explainWithin = 300 * time.Millisecond

// Explain asks all members for their copies of a key and says who owns it and
// who acts for it.
func (p *Peers) Explain(ctx context.Context, key cache.Key) Explanation {
	v := p.view.Load()
	acting, _ := p.acting(v, key.Key, nil)
	e := Explanation{
		Group: key.Group, Key: key.Key, Hash: v.Ring.Hash(key.Key), Owner: v.Ring.Get(key.Key),
		Owners: v.Ring.Owners(key.Key, len(v.Members)), Acting: acting, Copies: []cache.Copy{},
	}
	copies := p.copies(ctx, key)
	for _, id := range e.Owners {
		c, asked := copies[id]
		if !asked {
			e.Unreachable = append(e.Unreachable, id)
			continue
		}
		if c == nil {
			continue
		}
		if c.Role != "" { // else it only knows of a load
			c.Node = id
			e.Copies = append(e.Copies, *c)
		}
		if c.LastLoad != nil && (e.LastLoad == nil || c.LastLoad.At.After(e.LastLoad.At)) {
			e.LastLoad = c.LastLoad
		}
	}
	return e
}

// copies asks each member for its copy: nil if it has none, nothing if it
// could not be asked.
func (p *Peers) copies(ctx context.Context, key cache.Key) map[string]*cache.Copy {
	ctx, cancel := context.WithTimeout(ctx, explainWithin)
	defer cancel()
	var mu sync.Mutex // guards found
	found := map[string]*cache.Copy{p.self: nil}
	if p.handler != nil {
		if c, ok := p.handler.Copy(key); ok || c.LastLoad != nil {
			found[p.self] = &c
		}
	}
	var calls sync.WaitGroup
	for _, pe := range p.ordered {
		calls.Go(func() {
			if open, _ := pe.state(); open {
				return
			}
			r, err := p.try(ctx, pe, &Request{Request: cache.Request{Op: OpCopy, Key: key}, Hop: 1})
			if err != nil || r.Err != nil {
				return
			}
			mu.Lock()
			found[pe.id] = r.Copy
			mu.Unlock()
		})
	}
	calls.Wait()
	return found
}
