package cache

import "sync/atomic"

// Elsewhere is a client's get that another node answers. It is the get's Waiting. The
// get counts among this node's waiters once the other node has said that the get waits
// for a load. A get that the other node answers from its store takes no place.
type Elsewhere struct {
	read  Read
	state atomic.Uint32
}

// The states of a get elsewhere. From underway it goes to waiting or refused under
// the lock of its key.
const (
	underway uint32 = iota
	waiting
	refused
	ended
)

// Elsewhere says that another node answers the get. The caller must call End.
func (r *Read) Elsewhere() *Elsewhere { return &Elsewhere{read: *r} }

// Loading counts the get among the waiters, or refuses it.
func (e *Elsewhere) Loading(uint64, bool) error {
	c, s := e.read.c, e.read.c.flights(e.read.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.state.Load() != underway:
		return nil
	case s.elsewhereLocked(e.read.key) >= c.maxKeyWaiters:
		return e.refuse(errManyKeyWaiters)
	case c.waiters.Add(1) > c.maxWaiters:
		c.waiters.Add(-1)
		return e.refuse(errManyWaiters)
	case !e.state.CompareAndSwap(underway, waiting):
		c.waiters.Add(-1) // it has ended just now
		return nil
	}
	s.stateLocked(e.read.key).elsewhere++
	return nil
}

func (e *Elsewhere) refuse(err error) error {
	if !e.state.CompareAndSwap(underway, refused) {
		return nil
	}
	return err
}

// End gives back the get's place among the waiters.
func (e *Elsewhere) End() {
	if e.state.Swap(ended) != waiting {
		return
	}
	c, s := e.read.c, e.read.c.flights(e.read.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.waiters.Add(-1)
	k := s.keys[e.read.key]
	k.elsewhere--
	s.releaseLocked(e.read.key, k)
}
