package cluster

import (
	"context"
	"errors"
	"slices"

	"kring/cache"
	"kring/peers"
)

// maxTries bounds the calls that one request makes to one member whose link breaks
// and comes back under it.
const maxTries = 3

// errActHere says that no other node acts for a request, and this node must.
var errActHere = errors.New("this node acts")

// ask calls the node that acts for a request, and the next one if that does not
// answer, until an answer comes. The asker is the member whose call is passed on, or
// "". The error is errActHere, or one that may be given to the client.
//
// A get ends with the caller's time as ErrOriginTimeout, a write as
// ErrWriteUnconfirmed: the write may have happened, or happen yet. A write goes to
// another member only when the circuit of the first is open, with the same id.
//
// A put's value may still be on its way when ask has returned: the caller must not
// change it afterwards.
func (c *Cluster) ask(ctx context.Context, req *peers.Request, route Route, asker string) (peers.Reply, error) {
	var excluded, tried []string
	notOwner := 0
	for ; ; route = c.route(req.Key.Key, excluded) {
		if route.Self {
			return peers.Reply{}, errActHere
		}
		if route.Node == asker {
			return peers.Reply{NotOwner: true}, nil
		}
		try := *req
		r, err := c.peers.Call(ctx, route.Node, &try)
		switch {
		case err == nil && r.NotOwner && req.Hop > 1:
			return r, nil
		case err == nil && r.NotOwner:
			c.notOwner.Add(1)
			if notOwner++; notOwner > 1 {
				return peers.Reply{}, errActHere
			}
			continue
		case err == nil:
			return r, nil
		case errors.Is(err, peers.ErrAskAgain):
			continue
		case ctx.Err() != nil || !peers.NoAnswer(err):
			return peers.Reply{}, timedOut(ctx, req.Op, err)
		}
		tried = append(tried, route.Node)
		if count(tried, route.Node) < maxTries {
			continue // its circuit is open by now, or there is a new link
		}
		if req.Op != cache.OpGet {
			return peers.Reply{}, cache.ErrWriteUnconfirmed.Because(err)
		}
		excluded = append(excluded, route.Node)
	}
}

// timedOut is the error that a client gets in place of one that only says that the
// time is up.
func timedOut(ctx context.Context, op cache.Op, err error) error {
	if peers.NoAnswer(err) {
		err = ctx.Err() // no time is left for another member
	}
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case op == cache.OpGet:
		return cache.ErrOriginTimeout.Because(err)
	}
	return cache.ErrWriteUnconfirmed.Because(err)
}

func count(list []string, s string) int {
	n := 0
	for ; slices.Contains(list, s); n++ {
		list = list[slices.Index(list, s)+1:]
	}
	return n
}
