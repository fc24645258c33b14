package cache

import (
	"context"
	"sync"
	"time"
)

const lockStripes = 64

var (
	errManyWaiters    = ErrOverloaded.With("too many requests wait for loads")
	errManyKeyWaiters = ErrOverloaded.With("too many requests wait for this key")
)

// flights is the state of the keys of one hash range: which loads run, which gets join
// them, which writes are under way. Loads and writes take effect under its lock. The
// lock is taken before a shard's, and never held across a load.
type flights struct {
	store *store
	run   func(*flight) // runs a load, on a goroutine of its own

	mu     sync.Mutex        // guards all below, and the guarded fields of the flights
	keys   map[Key]*keyState // only of keys that have a load, a write or a waiting get
	memory memory
	closed bool // no flight begins any more
}

// keyState is the loads and the write of one key. One load runs, and at most one is next:
// it begins when the one that runs, which a write has marked, has ended. One write
// is under way at a time.
//
//	         start            mark
//	(none) ────────▶ running ──────▶ running, marked ──┐ start
//	   ▲                │ land                │ land   ▼
//	   └────────────────┴─────────────────────┘   next ──land──▶ running
type keyState struct {
	running   *flight
	next      *flight
	writing   *turn
	elsewhere int // gets that wait for a load at another node: see Elsewhere
}

// flight is one load of one key that runs, or is next. It belongs to no caller: its
// context ends at its own deadline, and waiters come and go.
type flight struct {
	id    uint64 // see Waiting
	key   Key
	h     uint64
	group *group

	// Guarded by the mutex of its flights.
	load    Load
	term    Term
	marked  bool // a write has begun since it began: the result is not stored, and no get joins
	landed  bool // out is final
	starter bool // the get that started it still waits: the load goes on that get's account
	waiters int

	ctx    context.Context
	cancel context.CancelFunc

	done chan struct{} // closed once landed
	out  outcome       // written before done is closed, then read by all
}

// outcome is how a flight ended.
type outcome struct {
	entry  *Entry
	err    error
	status int
	stored bool
	found  bool // there was no load: the store had a fresh entry when it was to begin
	paid   bool // the starter counts as a load; else each request counts as a refresh
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

// turn is a write that is under way.
type turn struct {
	ended chan struct{} // closed at the end; made by the first that waits for it
}

// stateLocked returns the key's state, and makes it if there is none. The state
// outlives the request, whose buffer the key may be part of.
func (s *flights) stateLocked(key Key) *keyState {
	k := s.keys[key]
	if k == nil {
		k = &keyState{}
		s.keys[owned(key)] = k
	}
	return k
}

// releaseLocked forgets the state of a key that has no load, no write and no waiting
// get at another node.
func (s *flights) releaseLocked(key Key, k *keyState) {
	if *k == (keyState{}) {
		delete(s.keys, key)
	}
}

// loadingLocked reports whether a load of the key runs.
func (s *flights) loadingLocked(key Key) bool {
	k := s.keys[key]
	return k != nil && k.running != nil
}

// elsewhereLocked is how many gets of the key wait for a load at another node.
func (s *flights) elsewhereLocked(key Key) int {
	if k := s.keys[key]; k != nil {
		return k.elsewhere
	}
	return 0
}

// joinLocked returns the flight that a get which begins now may wait for, or nil.
func (s *flights) joinLocked(key Key, term Term) *flight {
	k := s.keys[key]
	switch {
	case k == nil || k.running == nil:
		return nil
	case !k.running.marked && k.running.term == term:
		return k.running
	case k.next != nil:
		// It has not begun, so its value will be new enough for any term.
		k.next.term = term
		return k.next
	}
	return nil
}

// startLocked starts a flight: at once, or as the next. Previous is the entry that
// is stored, or nil.
func (s *flights) startLocked(f *flight, previous *Entry) *flight {
	k := s.stateLocked(f.key)
	if k.running == nil {
		s.beginLocked(k, f, previous)
		return f
	}
	// A running load of another term than the get's is marked too: its value is of no
	// use any more.
	k.running.markLocked()
	k.next = f
	return f
}

// beginLocked makes the flight the one that runs. If previous has a validator, the load
// asks whether it is still good.
func (s *flights) beginLocked(k *keyState, f *flight, previous *Entry) {
	if previous.revalidatable() {
		f.load.Previous = previous
	}
	k.running = f
	s.run(f)
}

// landLocked ends the flight that runs. The next one begins, unless the store has a
// fresh entry by now.
func (s *flights) landLocked(f *flight, out outcome, now time.Time) {
	f.landed, f.out = true, out
	k := s.keys[f.key]
	next := k.next
	k.running, k.next = nil, nil
	if next != nil {
		s.succeedLocked(k, next, now)
	}
	s.releaseLocked(f.key, k)
}

func (s *flights) succeedLocked(k *keyState, next *flight, now time.Time) {
	e := s.store.find(next.h, next.key, next.term)
	switch {
	case s.closed:
		next.out = outcome{err: ErrDraining}
	case e.state(now) == fresh:
		next.out = outcome{entry: e, found: true}
	default:
		s.beginLocked(k, next, e)
		return
	}
	next.landed = true
	close(next.done)
}

// currentLocked reports whether the flight's result may change the store.
func (s *flights) currentLocked(f *flight) bool {
	return !f.marked && f.term != Unowned && s.keys[f.key].writing == nil
}

// wait has a get wait for a flight, as one of its counted waiters. The flight goes on
// without the get as long as another get waits, or the value is to be stored.
func (s *flights) wait(ctx context.Context, f *flight, starter bool) (Answer, error) {
	select {
	case <-f.done:
		return f.out.answer(starter), f.out.err
	case <-ctx.Done():
	}
	if !s.leave(f, starter) {
		<-f.done
		return f.out.answer(starter), f.out.err
	}
	return Answer{Kind: KindJoined}, ctxError(ctx)
}

// leave takes a get from a flight's waiters. False: the flight has ended first, and
// counts the get as one that it has answered.
func (s *flights) leave(f *flight, starter bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.landed {
		return false
	}
	f.waiters--
	if starter {
		f.starter = false
	}
	if f.waiters == 0 {
		s.abandonLocked(f)
	}
	return true
}

// abandonLocked ends a flight that no get waits for, if its value is not to be stored.
// Otherwise the load goes on although its client has left: the next get then has less
// to wait, or nothing.
func (s *flights) abandonLocked(f *flight) {
	switch k := s.keys[f.key]; {
	case k.next == f:
		k.next = nil
	case f.marked || f.term == Unowned:
		f.markLocked() // it ends, and no get may join it any more
	}
}

// The fence keeps an old value, which a load brings from before a write, from being
// served after the write:
//
//	load  asks the origin, which answers the old value
//	PUT   stores the new value and is acknowledged
//	load  would now store the old value
//
// A write marks the load that runs when the write begins, and again when its value
// becomes visible. A marked load answers the gets that already wait, which overlap
// the write, and is not stored. A later get waits for the next load, which begins
// when the marked one has ended, and looks in the store first.

// markLocked marks a flight. A flight that no get waits for is cancelled: its result is
// of no use any more.
func (f *flight) markLocked() {
	f.marked = true
	if f.waiters == 0 {
		f.cancel()
	}
}

// markLocked marks the load of the key that runs.
func (k *keyState) markLocked() {
	if k.running != nil {
		k.running.markLocked()
	}
}

// markGroup marks all running loads of a group, and forgets the group's failures, so
// that the origins are asked anew.
func (s *flights) markGroup(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, k := range s.keys {
		if key.Group == group {
			k.markLocked()
		}
	}
	s.memory.forgiveAll(group)
}

// awaitTurnLocked waits until no write of the key is under way. It lets go of the
// lock while it waits.
func (s *flights) awaitTurnLocked(ctx context.Context, key Key) error {
	for {
		if err := WriteCtxError(ctx); err != nil {
			return err
		}
		k := s.keys[key]
		if k == nil || k.writing == nil {
			return nil
		}
		if k.writing.ended == nil {
			k.writing.ended = make(chan struct{})
		}
		ended := k.writing.ended
		s.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
}

// endTurnLocked ends a write that is under way, and lets the next begin.
func (s *flights) endTurnLocked(key Key, t *turn) {
	k := s.keys[key]
	k.writing = nil
	if t.ended != nil {
		close(t.ended)
	}
	s.releaseLocked(key, k)
}

// close keeps later flights from beginning.
func (s *flights) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
