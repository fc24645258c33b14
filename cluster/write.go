package cluster

import (
	"context"
	"errors"

	"kring/cache"
	"kring/peers"
)

// errNobodyActs is the error of a write whose key no node acts for: this node must,
// according to its peers, and must not, according to its own view. Nobody would find
// what it stored.
var errNobodyActs = cache.ErrWriteUnconfirmed.With("no node could be found that acts for the key")

// errRouteEnded says that the view of a write's route is no longer this node's view.
var errRouteEnded = errors.New("the view has changed")

// Put carries out a client's put, here or at the node that acts for the key. The
// cache keeps req.Value. The Answer has Created and the Entry, of which only content
// and ETag are sure when another node has stored it.
func (c *Cluster) Put(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	put := *req
	put.Op = cache.OpPut
	a, err := c.write(ctx, &put)
	if err == nil && a.Entry == nil {
		a.Entry = put.PutEntry()
	}
	return a, err
}

// Delete carries out a client's delete. It does not matter whether there is anything
// to delete.
func (c *Cluster) Delete(ctx context.Context, key cache.Key) error {
	return c.DeleteIf(ctx, &cache.Request{Key: key})
}

// DeleteIf is Delete under req's IfMatch and IfNoneMatch. The node that acts for the
// key compares them with what it has: else ErrPreconditionFailed.
func (c *Cluster) DeleteIf(ctx context.Context, req *cache.Request) error {
	del := *req
	del.Op = cache.OpDelete
	_, err := c.write(ctx, &del)
	return err
}

func (c *Cluster) write(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	err := c.cache.CheckWrite(req)
	if err == nil {
		err = cache.WriteCtxError(ctx)
	}
	if err != nil {
		return cache.Answer{Node: c.self}, err
	}
	route := c.route(req.Key.Key, nil)
	for {
		if !route.Self {
			reply, err := c.ask(ctx, &peers.Request{Request: *req, Hop: 1}, route, "")
			if !errors.Is(err, errActHere) {
				if err == nil {
					err = reply.Err
				}
				a := reply.Answer
				a.OwnerKind, a.Kind = a.Kind, cache.KindPeer
				return a, err
			}
			if route = c.routeHere(req.Key.Key); route.Term == cache.Unowned {
				return cache.Answer{Node: c.self}, errNobodyActs
			}
		}
		a, err := c.carryOut(ctx, req, route)
		if !errors.Is(err, errRouteEnded) {
			return a, err
		}
		route = c.route(req.Key.Key, nil)
	}
}

// carryOut is a write at the node that acts for the key. With errRouteEnded nothing
// has happened.
func (c *Cluster) carryOut(ctx context.Context, req *cache.Request, route Route) (cache.Answer, error) {
	w, err := c.cache.BeginWrite(ctx, req, route.Term)
	if err != nil {
		return cache.Answer{Node: c.self}, err
	}
	if !route.Holds() {
		w.Abandon()
		return cache.Answer{Node: c.self}, errRouteEnded
	}
	return w.Commit(ctx)
}
