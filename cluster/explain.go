package cluster

import (
	"context"
	"sync"
	"time"

	"kring/cache"
	"kring/peers"
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

// Explain asks all members for their copies of a key and says who owns it and who
// acts for it.
func (c *Cluster) Explain(ctx context.Context, key cache.Key) Explanation {
	route := c.route(key.Key, nil)
	ring := route.View.Ring
	e := Explanation{
		Group: key.Group, Key: key.Key, Hash: ring.Hash(key.Key), Owner: ring.Get(key.Key),
		Owners: ring.Owners(key.Key, len(route.View.Members)), Acting: route.Node, Copies: []cache.Copy{},
	}
	copies := c.copies(ctx, key)
	for _, id := range e.Owners {
		copied, asked := copies[id]
		if !asked {
			e.Unreachable = append(e.Unreachable, id)
			continue
		}
		if copied == nil {
			continue
		}
		if copied.Role != "" { // else it only knows of a load
			copied.Node = id
			e.Copies = append(e.Copies, *copied)
		}
		if l := copied.LastLoad; l != nil && (e.LastLoad == nil || l.At.After(e.LastLoad.At)) {
			e.LastLoad = l
		}
	}
	return e
}

// copies asks each member for its copy: nil if it has none. A member that could not
// be asked is not in the map.
func (c *Cluster) copies(ctx context.Context, key cache.Key) map[string]*cache.Copy {
	ctx, cancel := context.WithTimeout(ctx, explainWithin)
	defer cancel()
	var mu sync.Mutex // guards found
	found := map[string]*cache.Copy{c.self: c.copyHere(key)}
	var calls sync.WaitGroup
	for _, member := range c.peers.Others() {
		calls.Go(func() {
			if !c.peers.Standings().CanCall(member) {
				return
			}
			r, err := c.peers.Call(ctx, member, &peers.Request{Request: cache.Request{Op: peers.OpCopy, Key: key}, Hop: 1})
			if err != nil || r.Err != nil {
				return
			}
			mu.Lock()
			found[member] = r.Copy
			mu.Unlock()
		})
	}
	calls.Wait()
	return found
}

// copyHere is this node's copy, or what it knows of a load; nil if neither.
func (c *Cluster) copyHere(key cache.Key) *cache.Copy {
	if copied, ok := c.cache.Copy(key); ok || copied.LastLoad != nil {
		return &copied
	}
	return nil
}
