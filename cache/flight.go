package cache

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"time"
)

// unowned is the term of loads made for a node that nobody confirmed as the
// one to act: they answer who waits, and are never stored.
const unowned = ^uint64(0)

// flight is one load of one key, under way or about to be. It belongs to no
// caller: its context ends at its own deadline, and waiters come and go.
type flight struct {
	id    uint64 // see Waiting
	key   Key
	h     uint64
	group *group

	// Guarded by the stripe's mutex.
	load    Load
	term    uint64
	marked  bool // a write has begun since it began: the result is not stored, and nobody joins
	landed  bool // out is final
	starter bool // who asked for it still waits: the load goes on that get's account
	waiters int

	ctx    context.Context
	cancel context.CancelFunc

	done chan struct{} // closed once landed
	out  outcome       // written before done is closed, then read by all
}

// outcome is what a flight came to.
type outcome struct {
	entry  *Entry
	err    error
	status int
	stored bool
	found  bool // the store had it by the time that the load was to begin
	paid   bool // the starter counts as the load; else refreshes did
}

// answer is a waiter's part of the outcome.
func (o *outcome) answer(starter bool) Answer {
	a := Answer{Entry: o.entry, Kind: KindJoined, Status: o.status, Stored: o.stored}
	switch {
	case !starter:
	case o.paid:
		a.Kind = KindLoad
	case o.found:
		a.Kind = KindHit
	default:
		a.Kind = KindRefused
	}
	return a
}

// beginLocked makes the flight the one that runs in its lane. Previous, if it
// has a validator, is what the origin is asked to compare.
func (c *Cache) beginLocked(l *lane, f *flight, previous *Entry) {
	f.load.Key = f.key
	if previous.revalidatable() {
		f.load.Previous = previous
	}
	f.ctx, f.cancel = context.WithTimeout(c.ctx, f.group.LoadTimeout)
	l.running = f
	c.flying.Add(1)
	go c.fly(f)
}

// fly is the goroutine of a flight. However the loader ends, by a value, an
// error, a panic or runtime.Goexit, the flight lands and its key works on.
func (c *Cache) fly(f *flight) {
	defer c.flying.Done()
	began := time.Now()
	var loaded Loaded
	out := outcome{err: ErrInternal.With("the load ended without an answer")}
	defer func() {
		v := recover()
		if v == nil {
			c.land(f, out, loaded.Endpoint, began)
			return
		}
		// The waiters get an error without the stack, and do not wait for the log.
		stack := string(debug.Stack())
		c.land(f, outcome{err: ErrInternal.With("the load panicked")}, loaded.Endpoint, began)
		c.log.Error("load panicked", "group", f.group.Name, "panic", v, "stack", stack)
	}()
	var err error
	loaded, err = c.loader.Load(f.ctx, &f.load)
	out.status = loaded.Status
	if err == nil {
		out.entry, err = f.group.admit(&f.load, loaded, time.Now())
	}
	out.err = c.loadError(f, err)
}

// loadError makes what a loader returned one of this package's errors.
func (c *Cache) loadError(f *flight, err error) error {
	var known *Error
	switch {
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		return ErrDraining.Because(err)
	case errors.As(err, &known):
		return err
	case f.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return ErrOriginTimeout.Because(err)
	}
	return ErrOriginFailed.Because(err)
}

// land ends a flight: it stores the value, unless a write has marked the
// flight, settles who pays, lets the waiters go and starts the next flight.
func (c *Cache) land(f *flight, out outcome, endpoint string, began time.Time) {
	now := time.Now()
	s := c.stripe(f.h)
	s.mu.Lock()
	current := !f.marked && f.term != unowned
	switch {
	case out.err == nil:
		out.entry.Term, out.entry.Version = f.term, c.version()
		if current {
			out.stored = c.keep(f, out.entry, now)
		}
		f.group.met.add(f.h)
	case current && verdict(out.err) == ValueEnded:
		c.store.remove(f.h, f.key)
	}
	c.rememberLocked(s, f, &out, endpoint, began, now)
	c.payLocked(f, &out)
	f.landed, f.out = true, out
	heard := f.waiters > 0 || errors.Is(f.ctx.Err(), context.Canceled)
	s.succeedLocked(c, f, now)
	s.mu.Unlock()
	close(f.done)
	f.cancel()
	c.unheard(f.group, out.err, heard)
}

// keep stores the value of an unmarked flight. What may not be stored takes
// away what was: the origin has said that it is no longer so.
func (c *Cache) keep(f *flight, e *Entry, now time.Time) bool {
	if !e.keepable(now) || int64(len(e.Value)) > c.config.MaxValueBytes {
		c.store.remove(f.h, f.key)
		return false
	}
	return c.store.put(f.h, f.key, e)
}

// rememberLocked keeps the error of a flight for those who ask next. Not the errors
// that say nothing of the origin: of a panic, of a load that nobody wanted
// any more, of one that was not admitted.
func (c *Cache) rememberLocked(s *stripe, f *flight, out *outcome, endpoint string, began, now time.Time) {
	err := out.err
	if f.load.Sent.Load() > 0 || err == nil || endpoint != "" {
		last := &LastLoad{Endpoint: endpoint, At: began, Millis: float64(now.Sub(began)) / float64(time.Millisecond), Waited: f.waiters}
		var known *Error
		if err == nil {
			last.Status = out.status
		} else if errors.As(err, &known) {
			last.Code = known.Code
		}
		s.memory.loaded(f.key, last)
	}
	switch {
	case err == nil:
		s.memory.forgive(f.key)
	case f.marked, f.term == unowned, errors.Is(f.ctx.Err(), context.Canceled):
	case errors.Is(err, ErrInternal), errors.Is(err, ErrOverloaded), errors.Is(err, ErrNoEligibleEndpoint), errors.Is(err, ErrBadKey):
	default:
		s.memory.failed(f.key, err, now)
	}
}

// payLocked enters the requests that the origins saw: one on the account of
// the get that started the flight, if that still waits, all others as refreshes.
func (c *Cache) payLocked(f *flight, out *outcome) {
	sent := uint64(f.load.Sent.Load())
	if sent == 0 && out.err == nil {
		sent = 1 // a loader that does not count has answered nevertheless
	}
	if f.starter && sent > 0 {
		out.paid = true
		sent--
	}
	p := f.group.books.page(f.h)
	p.refreshes.Add(sent)
	if out.err == nil && out.status == http.StatusNotModified {
		p.revalidated.Add(1)
	}
}
