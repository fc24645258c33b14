package cluster

import (
	"context"
	"errors"
	"fmt"

	"kring/cache"
	"kring/peers"
)

// Get answers a client's get: from the store, by a load, or through the node that
// acts for the key. With onlyIfCached nothing is loaded: ErrNotCached. The Answer
// says how the get was answered also when there is an error, unless the request was
// none: an unknown group or a bad key.
func (c *Cluster) Get(ctx context.Context, key cache.Key, onlyIfCached bool) (cache.Answer, error) {
	g, err := c.cache.Group(key.Group)
	if err != nil {
		return cache.Answer{Node: c.self}, err
	}
	return c.get(ctx, g.Read(key.Key, onlyIfCached))
}

func (c *Cluster) get(ctx context.Context, r cache.Read) (cache.Answer, error) {
	route := c.route(r.Key().Key, nil)
	if route.Self {
		if a, ok := r.Hit(route.Term); ok {
			return a, nil
		}
	}
	return c.miss(ctx, &r, route)
}

// miss answers a client's get that the store did not.
func (c *Cluster) miss(ctx context.Context, r *cache.Read, route Route) (a cache.Answer, err error) {
	if err := r.Check(); err != nil {
		return cache.Answer{Node: c.self}, err
	}
	r.Arrived()
	switch {
	case !r.Matches():
		a = r.Nothing()
	case route.Self:
		a, err = c.act(ctx, r, route)
	default:
		a, err = c.forwardGet(ctx, r, route)
	}
	r.Answered(a)
	return a, err
}

// act answers a client's get here. If the route holds no longer when the answer is
// there, the get is routed anew.
func (c *Cluster) act(ctx context.Context, r *cache.Read, route Route) (cache.Answer, error) {
	a, err := r.Answer(ctx, route.Term)
	if route.Holds() {
		return a, err
	}
	r.Discard(a)
	if route = c.route(r.Key().Key, nil); route.Self {
		return c.act(ctx, r, route)
	}
	return c.forwardGet(ctx, r, route)
}

// forwardGet answers a client's get through the node that acts for the key.
func (c *Cluster) forwardGet(ctx context.Context, r *cache.Read, route Route) (cache.Answer, error) {
	wait := r.Elsewhere()
	req := peers.Request{Request: cache.Request{Op: cache.OpGet, Key: r.Key(), OnlyIfCached: r.OnlyIfCached(), Waiting: wait}, Hop: 1}
	reply, err := c.ask(ctx, &req, route, "")
	wait.End()
	if errors.Is(err, errActHere) {
		return c.act(ctx, r, c.routeHere(r.Key().Key))
	}
	if full, ok := errors.AsType[*peers.RefusedHere](err); ok {
		return cache.Answer{Kind: cache.KindRefused, Node: c.self, OwnerKind: cache.KindRefused}, full.Err
	}
	if !reply.Shared && (err != nil || !reply.Counted) {
		c.peers.Abandon()
	}
	if err != nil {
		return cache.Answer{Kind: cache.KindPeer}, err
	}
	a := reply.Answer
	if reply.Err == nil && a.Entry == nil {
		reply.Err = cache.ErrInternal.Because(fmt.Errorf("%s answered a get with neither an entry nor an error", a.Node))
	}
	a.OwnerKind, a.Kind = a.Kind, cache.KindPeer
	if reply.Shared {
		a.Kind = cache.KindJoined
		if a.OwnerKind == cache.KindNone {
			a.OwnerKind = cache.KindJoined
		}
	}
	return a, reply.Err
}
