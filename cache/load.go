package cache

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"time"
)

// newFlight makes a flight for a get. The get's context has the id of its request.
func (c *Cache) newFlight(ctx context.Context, g *group, key Key, h uint64, term Term) *flight {
	f := &flight{id: c.loadIDs.Add(1), key: owned(key), h: h, group: g, term: term, done: make(chan struct{})}
	f.load.Key = f.key
	f.load.RequestID, _ = ctx.Value(RequestIDKey{}).(string)
	return f
}

// run runs a flight on a goroutine of its own. The flight's time begins now.
func (c *Cache) run(f *flight) {
	f.ctx, f.cancel = context.WithTimeout(c.ctx, f.group.LoadTimeout)
	c.flying.Add(1)
	go c.fly(f)
}

// fly is the goroutine of a flight. The loader may end with a value, an error, a panic or
// runtime.Goexit. The flight lands in each case, so that its key does not hang.
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
		// The flight lands before the line is logged: its waiters do not wait for the log.
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

// loadError turns a loader's error into one of this package's.
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

// land ends a flight. It stores the value, unless a write has marked the flight, counts
// the requests that the origins saw, and lets the waiters go.
func (c *Cache) land(f *flight, out outcome, endpoint string, began time.Time) {
	now := time.Now()
	s := c.flights(f.h)
	s.mu.Lock()
	current := s.currentLocked(f)
	switch {
	case out.err == nil:
		out.entry.Term, out.entry.Version = f.term, c.version()
		if current {
			out.stored = c.keep(f, out.entry, now)
		}
		f.group.seen.add(f.h)
	case current && verdict(out.err) == ValueEnded:
		c.store.remove(f.h, f.key)
	}
	f.rememberLocked(&s.memory, &out, endpoint, began, now)
	f.payLocked(&out)
	told := f.waiters > 0 || errors.Is(f.ctx.Err(), context.Canceled)
	s.landLocked(f, out, now)
	s.mu.Unlock()
	close(f.done)
	f.cancel()
	// Overloaded is this node's own limit: the next get tries again.
	if out.err == nil || !told && !c.Draining() && !errors.Is(out.err, ErrOverloaded) {
		f.group.failing.landed(c.log, f.group.Name, out.err)
	}
}

// keep stores the value of an unmarked flight. A value that may not be stored removes
// the stored one, because the origin has just replaced that.
func (c *Cache) keep(f *flight, e *Entry, now time.Time) bool {
	if !e.keepable(now) || int64(len(e.Value)) > c.config.MaxValueBytes {
		c.store.remove(f.h, f.key)
		return false
	}
	return c.store.put(f.h, f.key, e)
}

// rememberLocked remembers how a flight ended. An error answers the next gets, unless it
// says nothing of the origin. Such errors are those of a panic, of a load that was
// cancelled because no get waited, and of a load that was not admitted.
func (f *flight) rememberLocked(m *memory, out *outcome, endpoint string, began, now time.Time) {
	err := out.err
	if f.load.Sent.Load() > 0 || err == nil || endpoint != "" {
		last := &LastLoad{Endpoint: endpoint, At: began, Millis: float64(now.Sub(began)) / float64(time.Millisecond), Waited: f.waiters}
		var known *Error
		if err == nil {
			last.Status = out.status
		} else if errors.As(err, &known) {
			last.Code = known.Code
		}
		m.loads.Add(f.key, last)
	}
	switch {
	case err == nil:
		m.forgive(f.key)
	case f.marked, f.term == Unowned, errors.Is(f.ctx.Err(), context.Canceled):
	case errors.Is(err, ErrInternal), errors.Is(err, ErrOverloaded), errors.Is(err, ErrNoEligibleEndpoint), errors.Is(err, ErrBadKey):
	default:
		m.failed(f.key, err, now)
	}
}

// payLocked counts the requests that the origins saw. One counts as a load, by the get
// that started the flight, if that get still waits. All others count as refreshes.
func (f *flight) payLocked(out *outcome) {
	sent := uint64(f.load.Sent.Load())
	if sent == 0 && out.err == nil {
		sent = 1 // a loader that does not count its requests has sent one at least
	}
	if f.starter && sent > 0 {
		out.paid = true
		sent--
	}
	counters := f.group.counters.shard(f.h)
	counters.refreshes.Add(sent)
	if out.err == nil && out.status == http.StatusNotModified {
		counters.revalidated.Add(1)
	}
}
