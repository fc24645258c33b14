package cache

import (
	"context"
	"sync/atomic"
)

var (
	errManyWaiters    = ErrOverloaded.With("too many requests wait for loads")
	errManyKeyWaiters = ErrOverloaded.With("too many requests wait for this key")
)

// forwarded is a client's get that the Router asks another node for. It counts
// among this node's waiters from when that node has said that the get waits for
// a load: a get that is answered from the other's store takes nobody's place.
type forwarded struct {
	req   Request
	c     *Cache
	h     uint64
	state atomic.Uint32
}

// The states of a forwarded get. From underway it goes to waiting or refused
// under the lock of its key's stripe.
const (
	underway uint32 = iota
	waiting
	refused
	ended
)

// forward answers a client's get through the node that acts for the key.
func (c *Cache) forward(ctx context.Context, h uint64, key Key, onlyIfCached bool) (Answer, error) {
	f := &forwarded{c: c, h: h, req: Request{Op: OpGet, Key: key, OnlyIfCached: onlyIfCached}}
	f.req.Waiting = f
	a, err := c.router.Forward(ctx, &f.req)
	f.end()
	if a.Kind == KindRefused {
		a.Node, a.OwnerKind = c.node, KindRefused // nobody else has answered
		return a, err
	}
	if a.OwnerKind == KindNone && a.Kind != KindPeer {
		a.OwnerKind = a.Kind
	}
	if a.Kind != KindJoined {
		a.Kind = KindPeer
	}
	return a, err
}

// Loading counts the get among those that wait, or refuses it.
func (f *forwarded) Loading(uint64, bool) error {
	c, s := f.c, f.c.stripe(f.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.state.Load() != underway:
		return nil
	case s.away[f.req.Key] >= c.maxKeyWaiters:
		return f.refuse(errManyKeyWaiters)
	case c.waiters.Add(1) > c.maxWaiters:
		c.waiters.Add(-1)
		return f.refuse(errManyWaiters)
	case !f.state.CompareAndSwap(underway, waiting):
		c.waiters.Add(-1) // it has ended just now
		return nil
	}
	s.away[f.req.Key]++
	return nil
}

func (f *forwarded) refuse(err error) error {
	if !f.state.CompareAndSwap(underway, refused) {
		return nil
	}
	return err
}

// end gives back the get's place among those that wait.
func (f *forwarded) end() {
	if f.state.Swap(ended) != waiting {
		return
	}
	s := f.c.stripe(f.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.c.waiters.Add(-1)
	if s.away[f.req.Key]--; s.away[f.req.Key] == 0 {
		delete(s.away, f.req.Key)
	}
}
