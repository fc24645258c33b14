package cache

import (
	"context"
	"sync"
	"time"
)

const stripes = 64

// stripe serializes what changes the keys of one hash range: which loads run,
// whether they are joined, and what is stored. Its lock is taken before a
// shard's, and never across a load.
type stripe struct {
	mu     sync.Mutex // guards all below and the guarded fields of the flights
	lanes  map[Key]*lane
	away   map[Key]int // gets that wait for a load of another node: see forwarded
	memory memory
	closed bool // no flight begins any more
}

// lane is what is going on for one key. One load runs, at most one is next:
// it begins when the one that runs, which a write has marked, has ended.
type lane struct {
	running *flight
	next    *flight
}

func (c *Cache) stripe(h uint64) *stripe { return &c.stripes[h%stripes] }

// joinLocked returns the flight that a read which begins now may wait for, nil
// if there is none.
func (s *stripe) joinLocked(key Key, term uint64) *flight {
	l := s.lanes[key]
	switch {
	case l == nil:
		return nil
	case !l.running.marked && l.running.term == term:
		return l.running
	case l.next != nil:
		// It has not begun: it will be new enough for any term.
		l.next.term = term
		return l.next
	}
	return nil
}

// startLocked makes a new flight: the one that runs, or the next. The context is
// that of the get that asks for it. The flight outlives the request, whose buffer
// the key may be part of.
func (c *Cache) startLocked(ctx context.Context, s *stripe, key Key, h uint64, g *group, term uint64, previous *Entry) *flight {
	key = owned(key)
	f := &flight{id: c.flights.Add(1), key: key, h: h, group: g, term: term, done: make(chan struct{})}
	f.load.RequestID, _ = ctx.Value(RequestIDKey{}).(string)
	l := s.lanes[key]
	if l != nil {
		// A load in another term than the reader's is as good as marked.
		markLocked(l.running)
		l.next = f
		return f
	}
	l = &lane{}
	s.lanes[key] = l
	c.beginLocked(l, f, previous)
	return f
}

// succeedLocked takes a flight that has ended from its lane and begins the
// next, unless it finds in the store what that was to load.
func (s *stripe) succeedLocked(c *Cache, f *flight, now time.Time) {
	l := s.lanes[f.key]
	next := l.next
	if next == nil || !c.takeOffLocked(s, l, next, now) {
		delete(s.lanes, f.key)
	}
}

func (c *Cache) takeOffLocked(s *stripe, l *lane, next *flight, now time.Time) bool {
	l.running, l.next = nil, nil
	e := c.find(next.h, next.key, next.term)
	switch {
	case s.closed:
		next.out = outcome{err: ErrDraining}
	case e.state(now) == fresh:
		next.out = outcome{entry: e, found: true}
	default:
		c.beginLocked(l, next, e)
		return true
	}
	next.landed = true
	close(next.done)
	return false
}

// wait is a reader's time with a flight, in whose waiters it is counted. The
// flight goes on without it as long as anybody waits or the value is to be
// stored.
func (c *Cache) wait(ctx context.Context, f *flight, starter bool) (Answer, error) {
	select {
	case <-f.done:
		return f.out.answer(starter), f.out.err
	case <-ctx.Done():
	}
	if !c.leave(f, starter) {
		<-f.done
		return f.out.answer(starter), f.out.err
	}
	return Answer{Kind: KindJoined}, gone(ctx)
}

// leave takes a reader from a flight's waiters. False: the flight has ended
// first, and the reader is on its books.
func (c *Cache) leave(f *flight, starter bool) bool {
	s := c.stripe(f.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.landed {
		return false
	}
	f.waiters--
	if starter {
		f.starter = false
	}
	s.abandonLocked(f)
	return true
}

// abandonLocked ends a flight that nobody waits for and whose value nobody
// wants. A client's load is wanted for the store even when the client has
// left: the next one need not wait as long.
func (s *stripe) abandonLocked(f *flight) {
	l := s.lanes[f.key]
	switch {
	case f.waiters > 0 || f.landed:
	case l.next == f:
		l.next = nil
	case f.marked || f.term == unowned:
		markLocked(f) // nobody may join it any more
	}
}

// gone is the error of a request whose own context has ended.
func gone(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return ErrOriginTimeout.Because(ctx.Err())
	}
	return ctx.Err()
}

// left reports whether an error is gone's for a request that was cancelled. A
// load's error may well wrap a cancelled context, and is another thing.
func left(err error) bool { return err == context.Canceled }

// refresh starts a load that nobody waits for, if there is cause and none runs.
func (c *Cache) refresh(key Key, h uint64, g *group, term uint64) {
	now := time.Now()
	s := c.stripe(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes[key] != nil || s.closed || now.Before(s.memory.failure(key).retryAt) {
		return
	}
	e := c.find(h, key, term)
	if e == nil || e.state(now) == fresh && !g.aging(e, now) {
		return // done, deleted or evicted meanwhile
	}
	c.startLocked(context.Background(), s, key, h, g, term, e)
}
