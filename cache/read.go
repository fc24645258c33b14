package cache

import (
	"context"
	"time"
)

// Group is one group of a Cache.
type Group struct {
	c *Cache
	g *group
}

// Group finds a group by its name. The error is ErrUnknownGroup.
func (c *Cache) Group(name string) (Group, error) {
	g := c.groups[name]
	if g == nil {
		return Group{}, ErrUnknownGroup
	}
	return Group{c, g}, nil
}

// Name is the group's name.
func (g Group) Name() string { return g.g.Name }

// Has reports whether the group can have a key: one that can be asked for, and that
// matches the group's pattern.
func (g Group) Has(key string) bool {
	return g.g.checkKey(key, g.c.config.MaxKeyBytes) == nil && g.g.matches(key)
}

// Read is one get of one key. Its methods are the steps of the get. Their caller decides
// which node acts for the key, and in which term.
//
// A client's get is counted when it arrives and when it is answered. Another node's
// get is counted by Delivered.
type Read struct {
	c            *Cache
	g            *group
	h            uint64
	key          Key
	onlyIfCached bool
}

// Read begins a get. With onlyIfCached the get starts no load: ErrNotCached.
func (g Group) Read(key string, onlyIfCached bool) Read {
	// One string for the group in all keys: the store compares it at a glance.
	return Read{c: g.c, g: g.g, h: g.c.store.hash(key), key: Key{Group: g.g.Name, Key: key}, onlyIfCached: onlyIfCached}
}

// Key is the key that the get asks for.
func (r *Read) Key() Key { return r.key }

// OnlyIfCached reports whether the get must not start a load.
func (r *Read) OnlyIfCached() bool { return r.onlyIfCached }

// Check says why the key cannot be asked for: ErrBadKey, ErrKeyTooLong, or what the
// group's own CheckKey says. A key that is stored was checked before.
func (r *Read) Check() error { return r.g.checkKey(r.key.Key, r.c.config.MaxKeyBytes) }

// Matches reports whether the group can have such a key. The answer for any other
// key is Nothing.
func (r *Read) Matches() bool { return r.g.matches(r.key.Key) }

// Nothing is the answer for a key without a value: it cannot have one, or nobody PUT
// one.
func (r *Read) Nothing() Answer {
	return Answer{Entry: &Entry{Negative: true, Born: time.Now()}, Kind: KindHit, Node: r.c.node, OwnerKind: KindHit}
}

// Hit answers a client's get from the store and counts it. False: the store cannot
// answer, and nothing was counted.
func (r *Read) Hit(term Term) (Answer, bool) {
	a := r.stored(term)
	if a.Entry == nil {
		return Answer{}, false
	}
	r.Arrived()
	r.Answered(a)
	return a, true
}

// Arrived counts a client's get.
func (r *Read) Arrived() { r.counters().gets.Add(1) }

// Answered counts how a client's get was answered.
func (r *Read) Answered(a Answer) {
	s := r.counters()
	s.answered(a)
	if a.StandIn && a.Node == r.c.node {
		s.standIn.Add(1)
	}
}

// Discard says that an Answer does not leave the node, and that the get will be
// answered again. A load that was made for the Answer counts as a refresh.
func (r *Read) Discard(a Answer) {
	if a.Kind == KindLoad {
		r.counters().refreshes.Add(1)
	}
}

func (r *Read) counters() *counterShard { return r.g.counters.shard(r.h) }

// Answer answers a client's get as the node that acts for the key. The Answer has a Kind
// also when there is an error.
func (r *Read) Answer(ctx context.Context, term Term) (Answer, error) {
	return r.act(ctx, term, nil)
}

// Serve answers another node's get as the node that acts for the key. Delivered
// counts it, with the Answer's Kind, which is KindNone if the caller has cancelled
// the get. Waiting may be nil.
func (r *Read) Serve(ctx context.Context, term Term, waiting Waiting) (Answer, error) {
	a, err := r.act(ctx, term, waiting)
	switch {
	case isCancelled(err):
		a.Kind, a.OwnerKind = KindNone, KindNone
	case term.StandIn():
		r.counters().standIn.Add(1)
	}
	return a, err
}

// ServeStored answers from the store, without waiting, if fits accepts the entry (nil:
// any entry). False: nothing was counted, and the caller must call Serve.
func (r *Read) ServeStored(term Term, fits func(*Entry) bool) (Answer, bool) {
	a := r.stored(term)
	if a.Entry == nil || fits != nil && !fits(a.Entry) {
		return Answer{}, false
	}
	if term.StandIn() {
		r.counters().standIn.Add(1)
	}
	return a, true
}

func (r *Read) act(ctx context.Context, term Term, waiting Waiting) (Answer, error) {
	if a := r.stored(term); a.Entry != nil {
		return a, nil
	}
	a, err := Answer{Kind: KindRefused}, error(ErrNotCached)
	if !r.onlyIfCached {
		a, err = r.load(ctx, term, waiting)
	}
	a.Node, a.OwnerKind, a.StandIn = r.c.node, a.Kind, term.StandIn()
	return a, err
}

// stored is the answer that needs no load. Without an Entry there is no such answer. A
// group without an origin always has one. stored starts a refresh if that is due.
func (r *Read) stored(term Term) Answer {
	now := time.Now()
	e := r.c.store.find(r.h, r.key, term)
	st := e.state(now)
	if st == fresh {
		if !r.onlyIfCached && r.g.RefreshAhead > 0 && r.g.aging(e, now) {
			r.refresh(term)
		}
		return Answer{Entry: e, Kind: KindHit, Node: r.c.node, OwnerKind: KindHit, StandIn: term.StandIn()}
	}
	if st == stale {
		if !r.onlyIfCached {
			r.refresh(term)
		}
		return Answer{Entry: e, Kind: KindStale, Node: r.c.node, OwnerKind: KindStale, StandIn: term.StandIn()}
	}
	if st == dead && e != nil && !e.revalidatable() {
		r.c.store.removeEntry(r.h, r.key, e)
	}
	if r.g.plain() && r.Check() == nil {
		a := r.Nothing()
		a.StandIn = term.StandIn()
		return a
	}
	return Answer{}
}

// load answers a get by a load that it starts or joins. If the load fails, a stale value
// may be the answer.
func (r *Read) load(ctx context.Context, term Term, waiting Waiting) (Answer, error) {
	c := r.c
	if ctx.Err() != nil {
		return Answer{Kind: KindRefused}, ctxError(ctx)
	}
	if c.waiters.Add(1) > c.maxWaiters {
		c.waiters.Add(-1)
		return staleOr(c.store.find(r.h, r.key, term), Answer{Kind: KindRefused}, errManyWaiters)
	}
	defer c.waiters.Add(-1)

	now := time.Now()
	s := c.flights(r.h)
	s.mu.Lock()
	// Again, under the lock: a load may have landed since the store was asked.
	e := c.store.find(r.h, r.key, term)
	if e.state(now) == fresh {
		s.mu.Unlock()
		return Answer{Entry: e, Kind: KindHit}, nil
	}
	f := s.joinLocked(r.key, term)
	starter := f == nil
	if starter {
		if a, err := r.admitLocked(s, e, now); err != nil {
			s.mu.Unlock()
			return staleOr(e, a, err)
		}
		f = s.startLocked(c.newFlight(ctx, r.g, r.key, r.h, term), e)
		f.starter = true
	}
	if f.waiters >= c.maxKeyWaiters {
		s.mu.Unlock()
		return staleOr(e, Answer{Kind: KindRefused}, errManyKeyWaiters)
	}
	f.waiters++
	var err error
	if starter && waiting != nil {
		err = waiting.Loading(f.id, true) // under the lock, so that it is told before the gets that join
	}
	s.mu.Unlock()
	if !starter && waiting != nil {
		err = waiting.Loading(f.id, false)
	}
	if err != nil && s.leave(f, starter) {
		return staleOr(e, Answer{Kind: KindRefused}, err)
	}
	a, err := s.wait(ctx, f, starter)
	b, err := staleOr(e, a, err)
	if a.Kind == KindLoad && b.Kind != KindLoad {
		// The get counts as stale, so its load counts as a refresh.
		r.counters().refreshes.Add(1)
	}
	return b, err
}

// admitLocked says whether a new load may be started now, and if not, how the get
// that would have started it is counted.
func (r *Read) admitLocked(s *flights, e *Entry, now time.Time) (Answer, error) {
	if s.closed {
		return Answer{Kind: KindRefused}, ErrDraining
	}
	last := s.memory.failure(r.key)
	if now.Before(last.until) || now.Before(last.retryAt) && verdict(last.err) == OriginDown && e.state(now) == staleError {
		return Answer{Kind: KindJoined}, last.again(now)
	}
	g := r.g
	if e == nil && g.newKeys != nil && !g.seen.has(r.h) && !g.newKeys.AllowN(now, 1) {
		return Answer{Kind: KindRefused}, ErrOverloaded.With("too many new keys")
	}
	return Answer{}, nil
}

// refresh starts a load that no get waits for, if it is due and none runs.
func (r *Read) refresh(term Term) {
	now := time.Now()
	s := r.c.flights(r.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loadingLocked(r.key) || s.closed || now.Before(s.memory.failure(r.key).retryAt) {
		return
	}
	e := r.c.store.find(r.h, r.key, term)
	if e == nil || e.state(now) == fresh && !r.g.aging(e, now) {
		return // refreshed, deleted or evicted meanwhile
	}
	s.startLocked(r.c.newFlight(context.Background(), r.g, r.key, r.h, term), e)
}

// staleOr replaces an error by the stale value that may be served in its place. A
// cancelled caller gets the error unchanged.
func staleOr(e *Entry, a Answer, err error) (Answer, error) {
	if err == nil || isCancelled(err) || verdict(err) != OriginDown {
		return a, err
	}
	if st := e.state(time.Now()); st == stale || st == staleError {
		return Answer{Entry: e, Kind: KindStale, Status: a.Status, StaleError: true}, nil
	}
	return a, err
}
