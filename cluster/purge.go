package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"

	"kring/cache"
	"kring/peers"
)

// UnconfirmedError names the nodes that did not confirm a purge in time. It is an
// ErrWriteUnconfirmed: the purge may still reach them.
type UnconfirmedError struct{ Nodes []string }

func (e *UnconfirmedError) Error() string { return e.Unwrap().Error() }

// Unwrap gives the *cache.Error whose code and detail a client sees.
func (e *UnconfirmedError) Unwrap() error {
	return cache.ErrWriteUnconfirmed.With("not confirmed by " + strings.Join(e.Nodes, ", "))
}

// Purge drops a group on every node. Without an error the group is gone everywhere;
// an *UnconfirmedError names the nodes that may still have it.
func (c *Cluster) Purge(ctx context.Context, group string) error {
	if err := c.checkPurge(group); err != nil {
		return err
	}
	c.cache.DropGroup(group)
	return c.purgeOthers(ctx, &peers.Request{Request: cache.Request{Op: peers.OpPurge, Key: cache.Key{Group: group}}, Hop: 1})
}

// PurgeTags drops those entries of a group, on every node, whose origin gave them one
// of the tags. Errors are Purge's; without a tag it is ErrInternal, lest a slip drop
// everything.
func (c *Cluster) PurgeTags(ctx context.Context, group string, tags []string) error {
	if err := c.checkPurge(group); err != nil {
		return err
	}
	if len(tags) == 0 {
		return cache.ErrInternal.With("a purge by tag without a tag")
	}
	c.cache.DropTags(group, tags)
	return c.purgeOthers(ctx, &peers.Request{Request: cache.Request{Op: peers.OpPurgeTags, Key: cache.Key{Group: group}}, Hop: 1, Tags: tags})
}

func (c *Cluster) checkPurge(group string) error {
	if _, err := c.cache.Group(group); err != nil {
		return err
	}
	if c.cache.Draining() {
		return cache.ErrDraining
	}
	return nil
}

// purgeOthers has every other member drop what this node has dropped.
func (c *Cluster) purgeOthers(ctx context.Context, req *peers.Request) error {
	var mu sync.Mutex // guards unconfirmed
	var unconfirmed []string
	var calls sync.WaitGroup
	for _, member := range c.peers.Others() {
		calls.Go(func() {
			if !c.purgeAt(ctx, member, *req) {
				mu.Lock()
				unconfirmed = append(unconfirmed, member)
				mu.Unlock()
			}
		})
	}
	calls.Wait()
	if len(unconfirmed) == 0 {
		return nil
	}
	slices.Sort(unconfirmed)
	return &UnconfirmedError{Nodes: unconfirmed}
}

// purgeAt reports whether a member has confirmed the purge. A member at whose address
// nothing listens has nothing left to drop.
func (c *Cluster) purgeAt(ctx context.Context, member string, req peers.Request) bool {
	for range maxTries {
		if open, gone := c.peers.Down(ctx, member); open {
			return gone
		}
		try := req
		r, err := c.peers.Call(ctx, member, &try)
		if err == nil {
			return r.Err == nil
		}
		if !peers.NoAnswer(err) {
			return false
		}
	}
	open, gone := c.peers.Down(ctx, member)
	return open && gone
}
