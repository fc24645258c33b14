package peers

import (
	"context"
	"sync"
)

// sharing has gets of this node that wait for one load at another node wait for
// one call.
//
// A get must not take the answer of a call just because it asks for the same
// key: the call may have been sent before a write, and the get begun after that
// was acknowledged. So each get makes a call of its own first. If it is not
// answered at once, the node that acts says for which load it waits:
//
//	get 1 → call 1: waits for load 7
//	PUT   → marks load 7, stores the new value, is acknowledged
//	get 2 → call 2: is answered with the new value; after a DELETE: waits for load 8
//
// A call never waits for a load that is marked by then (cache.Waiting). So a
// call that is told load 7 was told before a write marked it, and its get had
// begun by then: it may be answered with what load 7 brings, and takes the
// answer of call 1. Its own call is cancelled.
//
// Hits need none of this: a get of which nothing is told is not known here.
//
// Whether a call is waited for at all is its link's matter. A link's lock is taken
// under sharing's, never the reverse.
type sharing struct {
	mu    sync.Mutex // guards all below, the shareds and call.shared
	loads map[uint64]*shared
}

// shared is a call whose answer is for other gets, too.
type shared struct {
	load   uint64
	call   *call
	others map[*call]struct{} // calls that were handed over to it
	// ownLeft: the get that made the call has left.
	ownLeft bool
}

// join reports whether a call that waits for a load has been handed over to another.
// It then ends with the other's answer, by end, unless it leaves before. Else
// later ones may join it. The call that started a load is never handed over: the
// load is on the account of its get.
func (s *sharing) join(c *call, load uint64, starter bool) (handedOver bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.loads[load]
	switch {
	case !c.Waited(), known != nil && known == c.shared:
		return false
	case known != nil && c.shared == nil && !starter:
		if handedOver = c.HandOver(); handedOver {
			c.shared = known
			known.others[c] = struct{}{}
		}
		return handedOver
	case c.shared == nil:
		c.shared = &shared{call: c, others: map[*call]struct{}{}}
	default:
		s.forgetLocked(c.shared) // what it was told before is over
	}
	if known == nil || starter {
		c.shared.load = load
		s.loads[load] = c.shared
	}
	return false
}

// forgetLocked lets nobody join any more.
func (s *sharing) forgetLocked(sh *shared) {
	if s.loads[sh.load] == sh {
		delete(s.loads, sh.load)
	}
}

// end gives a call's answer, or the error in its place, to those who share it.
func (s *sharing) end(c *call, r Reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := c.shared
	if sh == nil || sh.call != c {
		return
	}
	s.forgetLocked(sh)
	r.Shared = true
	for other := range sh.others {
		other.taken = &r
		other.Release(err)
	}
	clear(sh.others)
}

// leave ends the waiting of a get for the answer to its call. False: the call has
// ended, or is about to. True: others wait for its answer, or it was handed over. If
// the get was the last that waited, the call that it was handed over to is cancelled.
func (s *sharing) leave(c *call, err error) (left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := c.shared
	switch {
	case sh == nil:
	case sh.call != c:
		if _, left = sh.others[c]; !left {
			return false
		}
		delete(sh.others, c)
		if sh.ownLeft && len(sh.others) == 0 {
			s.forgetLocked(sh)
			if sh.call.Leave(context.Canceled) {
				sh.call.Cancel()
			}
		}
		return true
	case len(sh.others) == 0:
		s.forgetLocked(sh)
	case c.Waited():
		sh.ownLeft = true
		return true
	}
	c.Leave(err)
	return false
}

// hasLeft reports whether the get that made a call has left it to others. The link's
// reader calls it.
func (s *sharing) hasLeft(c *call) bool {
	if c.shared == nil { // which the reader alone changes
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.shared.ownLeft
}
