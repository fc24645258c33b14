package cache

import (
	"context"
	"errors"
	"time"
)

// Get answers a client's get: from the store, by a load, or through the node
// that acts for the key. With onlyIfCached nothing is loaded: ErrNotCached.
// The Answer says how it was answered also when there is an error, unless the
// request was none: an unknown group or a bad key.
func (c *Cache) Get(ctx context.Context, key Key, onlyIfCached bool) (Answer, error) {
	g := c.groups[key.Group]
	if g == nil {
		return Answer{Node: c.node}, ErrUnknownGroup
	}
	key.Group = g.Name // one string for all: the store compares it at a glance
	term, self := c.router.Acts(key.Key)
	if self {
		if a, ok := c.hit(g, key, term, onlyIfCached); ok {
			return a, nil
		}
	}
	return c.miss(ctx, g, key, term, self, onlyIfCached)
}

// hit answers a get from this node's store, if that is possible; it is this
// node's to do. What is stored has been checked, so the key need not be.
func (c *Cache) hit(g *group, key Key, term uint64, onlyIfCached bool) (Answer, bool) {
	h := c.store.hash(key.Key)
	a := c.fromStore(g, h, key, term, onlyIfCached)
	if a.Entry == nil {
		return Answer{}, false
	}
	p := g.books.page(h)
	p.gets.Add(1)
	c.enter(p, a, term)
	return a, true
}

// miss answers a get that the store did not. Term and self are what the Router
// said just now.
func (c *Cache) miss(ctx context.Context, g *group, key Key, term uint64, self, onlyIfCached bool) (Answer, error) {
	if err := g.checkKey(key.Key, c.config.MaxKeyBytes); err != nil {
		return Answer{Node: c.node}, err
	}
	h := c.store.hash(key.Key)
	p := g.books.page(h)
	p.gets.Add(1)
	if !g.matches(key.Key) {
		a := c.nothing()
		p.answered(a)
		return a, nil
	}
	if !self {
		a, err := c.forward(ctx, h, key, onlyIfCached)
		if !errors.Is(err, ErrActHere) {
			p.answered(a)
			return a, err
		}
		if term, self = c.router.Acts(key.Key); !self {
			term = unowned
		}
	}
	a, err := c.act(ctx, g, h, key, term, onlyIfCached, nil)
	c.enter(p, a, term)
	return a, err
}

// enter puts a get that was answered here in the books.
func (c *Cache) enter(p *page, a Answer, term uint64) {
	p.answered(a)
	if term != 0 {
		p.standIn.Add(1)
	}
}

// Serve carries out another node's call. It acts here and never forwards; if
// this node turns out not to act for the key, the error is ErrActHere and
// nothing has happened. Serve does not count the get: Settle does, with the
// Answer's Kind, which is KindNone for what is not counted (writes, and gets
// that the asker has cancelled). The cache keeps req.Value.
func (c *Cache) Serve(ctx context.Context, req *Request) (Answer, error) {
	switch req.Op {
	case OpPut, OpDelete:
		return c.serveWrite(ctx, req)
	case OpGet:
	default:
		return Answer{Node: c.node}, ErrInternal.With("unknown operation")
	}
	g := c.groups[req.Key.Group]
	if g == nil {
		return Answer{Node: c.node}, ErrUnknownGroup
	}
	if err := g.checkKey(req.Key.Key, c.config.MaxKeyBytes); err != nil {
		return Answer{Node: c.node}, err
	}
	if !g.matches(req.Key.Key) {
		return c.nothing(), nil
	}
	term, self := c.router.Acts(req.Key.Key)
	if !self {
		return Answer{Node: c.node}, ErrActHere
	}
	h := c.store.hash(req.Key.Key)
	a, err := c.act(ctx, g, h, Key{Group: g.Name, Key: req.Key.Key}, term, req.OnlyIfCached, req.Waiting)
	if left(err) {
		a.Kind, a.OwnerKind = KindNone, KindNone
	} else if term != 0 {
		g.books.page(h).standIn.Add(1)
	}
	return a, err
}

// ServeStored is Serve for a get that is answered with what is stored, if that
// fits (nil: anything does): it waits for nobody. False: nothing is in the
// books, Serve is to be asked.
func (c *Cache) ServeStored(key Key, onlyIfCached bool, fits func(*Entry) bool) (Answer, bool) {
	g := c.groups[key.Group]
	if g == nil {
		return Answer{}, false
	}
	key.Group = g.Name
	term, self := c.router.Acts(key.Key)
	if !self {
		return Answer{}, false
	}
	h := c.store.hash(key.Key)
	a := c.fromStore(g, h, key, term, onlyIfCached)
	if a.Entry == nil || fits != nil && !fits(a.Entry) {
		return Answer{}, false
	}
	if term != 0 {
		g.books.page(h).standIn.Add(1)
	}
	return a, true
}

// act answers a get as the node that acts for the key. Waiting may be nil.
func (c *Cache) act(ctx context.Context, g *group, h uint64, key Key, term uint64, onlyIfCached bool, waiting Waiting) (Answer, error) {
	if a := c.fromStore(g, h, key, term, onlyIfCached); a.Entry != nil {
		return a, nil
	}
	a, err := Answer{Kind: KindRefused}, error(ErrNotCached)
	if !onlyIfCached {
		a, err = c.load(ctx, g, h, key, term, waiting)
	}
	a.Node, a.OwnerKind, a.StandIn = c.node, a.Kind, term != 0
	return a, err
}

// fromStore is the answer for which nobody need be asked; without an Entry if
// there is none. A group without an origin always has one. It starts the
// refreshes that are due.
func (c *Cache) fromStore(g *group, h uint64, key Key, term uint64, onlyIfCached bool) Answer {
	now := time.Now()
	e := c.find(h, key, term)
	st := e.state(now)
	if st == fresh {
		if !onlyIfCached && g.RefreshAhead > 0 && g.aging(e, now) {
			c.refresh(key, h, g, term)
		}
		return Answer{Entry: e, Kind: KindHit, Node: c.node, OwnerKind: KindHit, StandIn: term != 0}
	}
	if st == stale {
		if !onlyIfCached {
			c.refresh(key, h, g, term)
		}
		return Answer{Entry: e, Kind: KindStale, Node: c.node, OwnerKind: KindStale, StandIn: term != 0}
	}
	if st == dead && e != nil && !e.revalidatable() {
		c.store.removeEntry(h, key, e)
	}
	if g.plain() && g.checkKey(key.Key, c.config.MaxKeyBytes) == nil {
		a := c.nothing()
		a.StandIn = term != 0
		return a
	}
	return Answer{}
}

// nothing is the answer for a key that cannot be or was not filled.
func (c *Cache) nothing() Answer {
	return Answer{Entry: &Entry{Negative: true, Born: time.Now()}, Kind: KindHit, Node: c.node, OwnerKind: KindHit}
}

// load answers a get that needs a load, by its own or another's. If that
// fails, a value that may be served then is.
func (c *Cache) load(ctx context.Context, g *group, h uint64, key Key, term uint64, waiting Waiting) (Answer, error) {
	if ctx.Err() != nil {
		return Answer{Kind: KindRefused}, gone(ctx)
	}
	if c.waiters.Add(1) > c.maxWaiters {
		c.waiters.Add(-1)
		return instead(c.find(h, key, term), Answer{Kind: KindRefused}, errManyWaiters)
	}
	defer c.waiters.Add(-1)

	now := time.Now()
	s := c.stripe(h)
	s.mu.Lock()
	// Again, under the lock: a load may have landed since the store was asked.
	e := c.find(h, key, term)
	if e.state(now) == fresh {
		s.mu.Unlock()
		return Answer{Entry: e, Kind: KindHit}, nil
	}
	f := s.joinLocked(key, term)
	starter := f == nil
	if starter {
		if a, err := c.admitLocked(s, g, h, key, e, now); err != nil {
			s.mu.Unlock()
			return instead(e, a, err)
		}
		f = c.startLocked(ctx, s, key, h, g, term, e)
		f.starter = true
	}
	if f.waiters >= c.maxKeyWaiters {
		s.mu.Unlock()
		return instead(e, Answer{Kind: KindRefused}, errManyKeyWaiters)
	}
	f.waiters++
	var err error
	if starter && waiting != nil {
		err = waiting.Loading(f.id, true) // under the lock, so that it is told before those who join
	}
	s.mu.Unlock()
	if !starter && waiting != nil {
		err = waiting.Loading(f.id, false)
	}
	if err != nil && c.leave(f, starter) {
		return instead(e, Answer{Kind: KindRefused}, err)
	}
	a, err := c.wait(ctx, f, starter)
	b, err := instead(e, a, err)
	if a.Kind == KindLoad && b.Kind != KindLoad {
		// The get is on the books as stale, so its load is not a get's.
		g.books.page(h).refreshes.Add(1)
	}
	return b, err
}

// admitLocked says whether a new load may be started now, and if not, how the
// get that would have is counted.
func (c *Cache) admitLocked(s *stripe, g *group, h uint64, key Key, e *Entry, now time.Time) (Answer, error) {
	if s.closed {
		return Answer{Kind: KindRefused}, ErrDraining
	}
	last := s.memory.failure(key)
	if now.Before(last.until) || now.Before(last.retryAt) && verdict(last.err) == OriginDown && e.state(now) == staleError {
		return Answer{Kind: KindJoined}, last.again(now)
	}
	if e == nil && g.newKeys != nil && !g.met.has(h) && !g.newKeys.AllowN(now, 1) {
		return Answer{Kind: KindRefused}, ErrOverloaded.With("too many new keys")
	}
	return Answer{}, nil
}

// instead replaces an error by the stale value that may be served in its
// place. A caller that has gone away needs none.
func instead(e *Entry, a Answer, err error) (Answer, error) {
	if err == nil || left(err) || verdict(err) != OriginDown {
		return a, err
	}
	if st := e.state(time.Now()); st == stale || st == staleError {
		return Answer{Entry: e, Kind: KindStale, Status: a.Status, StaleError: true}, nil
	}
	return a, err
}
