package cluster

import (
	"context"
	"errors"

	"kring/cache"
	"kring/peers"
)

// Stored answers another member's get with what is stored. It waits for nobody. A
// call in another view than this node's is not answered here.
func (c *Cluster) Stored(in *peers.Inbound, reply *peers.Reply) bool {
	switch in.Op {
	case peers.OpGetMany:
		c.storedMany(in, reply)
		return true
	case cache.OpGet:
		g, err := c.cache.Group(in.Key.Group)
		if err != nil {
			return false
		}
		route := c.route(in.Key.Key, nil)
		if !route.Self || in.View != route.View.Number {
			return false
		}
		r := g.Read(in.Key.Key, in.OnlyIfCached)
		reply.Answer, reply.Counted = r.ServeStored(route.Term, nil)
		return reply.Counted
	}
	return false
}

// storedMany answers those of many gets whose values are stored and have room in one
// frame. The caller asks for each of the others by itself.
func (c *Cluster) storedMany(in *peers.Inbound, reply *peers.Reply) {
	reply.Answer.Node = c.self
	reply.Many = make([]cache.Answer, len(in.Keys))
	g, err := c.cache.Group(in.Key.Group)
	if err != nil {
		return
	}
	for i, key := range in.Keys {
		route := c.route(key, nil)
		if !route.Self || in.View != route.View.Number {
			continue
		}
		r := g.Read(key, false)
		if a, ok := r.ServeStored(route.Term, in.Fits); ok {
			reply.Many[i] = a
		}
	}
}

// Answer answers another member's call, or has it answered by the node that acts.
func (c *Cluster) Answer(ctx context.Context, in *peers.Inbound) peers.Reply {
	if in.Changes() && ctx.Err() != nil {
		return peers.Reply{Err: timedOut(ctx, in.Op, ctx.Err())}
	}
	switch in.Op {
	case peers.OpPurge:
		c.cache.DropGroup(in.Key.Group)
		return peers.Reply{}
	case peers.OpPurgeTags:
		c.cache.DropTags(in.Key.Group, in.Tags)
		return peers.Reply{}
	case peers.OpCopy:
		return peers.Reply{Copy: c.copyHere(in.Key)}
	}
	route := c.route(in.Key.Key, nil)
	agreed := in.View == route.View.Number
	switch {
	case route.Self && agreed:
		return c.serve(ctx, in, route)
	case route.Node == in.From || in.Hop > 1 || !agreed:
		return peers.Reply{NotOwner: true}
	}
	c.passedOn.Add(1)
	on := peers.Request{Request: in.Request.Request, Hop: 2}
	reply, err := c.ask(ctx, &on, route, in.From)
	switch {
	case errors.Is(err, errActHere):
		if route = c.route(in.Key.Key, nil); !route.Self {
			return peers.Reply{NotOwner: true}
		}
		return c.serve(ctx, in, route)
	case err != nil:
		return peers.Reply{Err: err}
	}
	reply.PassedOn = true
	return reply
}

// serve has this node act for another member's call. An answer whose route holds no
// longer does not leave.
func (c *Cluster) serve(ctx context.Context, in *peers.Inbound, route Route) peers.Reply {
	req := &in.Request.Request
	reply := peers.Reply{}
	if req.Op == cache.OpGet {
		reply.Answer, reply.Err = c.serveGet(ctx, req, route)
		reply.Counted = reply.Answer.Kind != cache.KindNone
	} else if reply.Answer.Node, reply.Err = c.self, c.cache.CheckWrite(req); reply.Err == nil {
		reply.Answer, reply.Err = c.carryOut(ctx, req, route)
	}
	switch {
	case errors.Is(reply.Err, errRouteEnded):
		return peers.Reply{NotOwner: true}
	case req.Op == cache.OpGet && !route.Holds():
		c.cache.Delivered(reply.Answer.Kind, false)
		return peers.Reply{NotOwner: true}
	}
	return reply
}

func (c *Cluster) serveGet(ctx context.Context, req *cache.Request, route Route) (cache.Answer, error) {
	g, err := c.cache.Group(req.Key.Group)
	if err != nil {
		return cache.Answer{Node: c.self}, err
	}
	r := g.Read(req.Key.Key, req.OnlyIfCached)
	if err := r.Check(); err != nil {
		return cache.Answer{Node: c.self}, err
	}
	if !r.Matches() {
		return r.Nothing(), nil
	}
	return r.Serve(ctx, route.Term, req.Waiting)
}

// Delivered counts the answer to another member's get: see cache.Cache.
func (c *Cluster) Delivered(kind cache.Kind, ok bool) { c.cache.Delivered(kind, ok) }
