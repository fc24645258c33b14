package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// Put carries out a client's put, here or at the node that acts for the key.
// The cache keeps req.Value. The Answer has Created and the Entry, of which
// only content and ETag are sure when another node stored it.
func (c *Cache) Put(ctx context.Context, req *Request) (Answer, error) {
	put := *req
	put.Op = OpPut
	a, err := c.write(ctx, &put)
	if err == nil && a.Entry == nil {
		a.Entry = put.entry()
	}
	return a, err
}

// Delete carries out a client's delete; it does not matter whether there is
// anything to delete.
func (c *Cache) Delete(ctx context.Context, key Key) error {
	return c.DeleteIf(ctx, &Request{Key: key})
}

// DeleteIf is Delete under req's IfMatch and IfNoneMatch, which the node that
// acts for the key compares with what it has: else ErrPreconditionFailed.
func (c *Cache) DeleteIf(ctx context.Context, req *Request) error {
	del := *req
	del.Op = OpDelete
	_, err := c.write(ctx, &del)
	return err
}

func (c *Cache) write(ctx context.Context, req *Request) (Answer, error) {
	g, err := c.checkWrite(req)
	if err != nil {
		return Answer{Node: c.node}, err
	}
	for req.ID == 0 {
		req.ID = rand.Uint64()
	}
	if err := given(ctx); err != nil {
		return Answer{Node: c.node}, err
	}
	term, self := c.router.Acts(req.Key.Key)
	if !self {
		a, err := c.router.Forward(ctx, req)
		if !errors.Is(err, ErrActHere) {
			return a, err
		}
		if term, self = c.router.Acts(req.Key.Key); !self {
			return Answer{Node: c.node}, errNobodyActs
		}
	}
	return c.apply(ctx, g, req, term)
}

// given is the error of a write whose time is up, or whose caller is gone.
func given(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrWriteUnconfirmed.Because(err)
	}
	return err
}

// serveWrite carries out another node's write.
func (c *Cache) serveWrite(ctx context.Context, req *Request) (Answer, error) {
	g, err := c.checkWrite(req)
	if err != nil {
		return Answer{Node: c.node}, err
	}
	term, self := c.router.Acts(req.Key.Key)
	if !self {
		return Answer{Node: c.node}, ErrActHere
	}
	return c.apply(ctx, g, req, term)
}

func (c *Cache) checkWrite(req *Request) (*group, error) {
	g := c.groups[req.Key.Group]
	switch {
	case g == nil:
		return nil, ErrUnknownGroup
	case c.ctx.Err() != nil:
		return nil, ErrDraining
	}
	req.Key.Group = g.Name // as in Get; the request's may be part of its buffer, too
	if err := g.checkKey(req.Key.Key, c.config.MaxKeyBytes); err != nil {
		return nil, err
	}
	if req.Op == OpDelete {
		return g, nil
	}
	switch {
	case !g.matches(req.Key.Key):
		return nil, ErrBadKey.With("the group has no such keys")
	case req.TTL < 0:
		return nil, ErrBadTTL
	case int64(len(req.Value)) > c.config.MaxValueBytes:
		return nil, ErrValueTooLarge
	}
	return g, nil
}

// apply is the write itself, in one step under the stripe's lock: writes of a
// key come one after the other, and none is merged with another. See fence.go.
//
// Nothing happens once ctx has ended: its caller has turned to another node,
// or was told that the write is unconfirmed, and later writes may have been
// acknowledged since.
func (c *Cache) apply(ctx context.Context, g *group, req *Request, term uint64) (Answer, error) {
	h := c.store.hash(req.Key.Key)
	var entry *Entry
	if req.Op == OpPut {
		entry = g.dated(req)
		if !c.store.fits(h, req.Key, entry) {
			return Answer{Node: c.node}, ErrValueTooLarge.With("the value does not fit in the cache")
		}
	}
	s := c.stripe(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := given(ctx); err != nil {
		return Answer{Node: c.node}, err
	}
	a := Answer{Node: c.node, Entry: entry, Stored: entry != nil}
	r := receipt{id: req.ID, key: req.Key}
	if created, done := c.receipts.find(r); done {
		a.Created = created
		return a, nil
	}
	old := c.find(h, req.Key, term)
	if old.state(time.Now()) == dead || old.Negative {
		old = nil
	}
	if !req.met(old) {
		return Answer{Node: c.node}, ErrPreconditionFailed
	}
	s.fenceLocked(req.Key)
	s.memory.forgive(req.Key)
	if req.Op == OpDelete {
		c.store.remove(h, req.Key)
	} else {
		entry.Term, entry.Version = term, c.version()
		c.store.put(h, req.Key, entry)
		g.met.add(h)
		a.Created = old == nil
	}
	c.receipts.add(r, a.Created)
	return a, nil
}

// entry is what a put stores, without its times.
func (req *Request) entry() *Entry {
	e := &Entry{
		Value: exact(req.Value), ContentType: strings.Clone(req.ContentType), ContentEncoding: strings.Clone(req.ContentEncoding),
		ETag: ContentETag(req.Value, req.ContentEncoding), Born: time.Now(), TTL: req.TTL,
	}
	if e.ContentType == "" {
		e.ContentType = "application/octet-stream"
	}
	return e
}

// dated is a put's entry with its times: a TTL that was asked for is kept to,
// the group's own is jittered. In a group with an origin a PUT value may be
// served stale as a loaded one may.
func (g *group) dated(req *Request) *Entry {
	e := req.entry()
	if e.TTL == 0 {
		e.TTL = g.jittered(g.TTL)
	}
	if !g.plain() {
		e.StaleWhileRevalidate, e.StaleIfError = g.StaleWhileRevalidate, g.StaleIfError
	}
	return e
}

// met reports whether a write's conditions hold for what is there, nil for
// nothing: If-Match compares strongly, If-None-Match weakly (RFC 9110 §13.1).
func (req *Request) met(old *Entry) bool {
	if len(req.IfMatch) > 0 && !listed(req.IfMatch, old, false) {
		return false
	}
	return len(req.IfNoneMatch) == 0 || !listed(req.IfNoneMatch, old, true)
}

func listed(tags []string, e *Entry, weak bool) bool {
	if e == nil {
		return false
	}
	for _, t := range tags {
		if weak {
			t = strings.TrimPrefix(t, "W/")
		}
		if t == "*" || t == e.ETag {
			return true
		}
	}
	return false
}
