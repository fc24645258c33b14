package peers

import (
	"context"
	"sync"
)

// sharing has several gets of this node wait for one call, if they wait for one load
// at another node.
//
// A get must not take the answer of a call just because it asks for the same
// key: the call may have been sent before a write, and the get may have begun after
// the write was acknowledged. So each get makes a call of its own first. If the node
// that acts does not answer it at once, it says for which load the call waits:
//
//	get 1 → call 1: waits for load 7
//	PUT   → marks load 7, stores the new value, is acknowledged
//	get 2 → call 2: is answered with the new value; after a DELETE: waits for load 8
//
// A call never waits for a load that is marked by then (cache.Waiting). So a
// call that is told load 7 was told before a write marked it, and its get had
// begun by then: load 7 may answer the get. So the get takes the answer of call 1,
// and its own call is cancelled.
//
// A hit is not known here: only a call that is told of a load is.
//
// The link of a call knows whether the call is waited for at all. A link's lock is
// taken under sharing's, never the reverse.
type sharing struct {
	mu    sync.Mutex // guards all below, the shareds and call.shared
	loads map[uint64]*shared
}

// shared is a call whose answer is for other gets, too.
type shared struct {
	load   uint64
	call   *call
	others map[*call]struct{} // calls that were handed over to it
	// ownLeft: the get that made the call waits no longer.
	ownLeft bool
}

// join hands a call that waits for a load over to another call that does, and reports
// whether there is one. The get of a call that was handed over ends with the other
// call's answer, by end, unless it leaves before. A call that was not handed over is
// one that later calls may join. The call that started a load is never handed over:
// its get counts as the load.
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

// forgetLocked has no later call join.
func (s *sharing) forgetLocked(sh *shared) {
	if s.loads[sh.load] == sh {
		delete(s.loads, sh.load)
	}
}

// end gives a call's answer, or the error in its place, to the gets that share it.
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

// leave ends a get's waiting. True: its call was handed over, or goes on because other
// gets share it. False: its call has ended, by this or before. If the get was the last
// that waited for the call that its own was handed over to, that call is cancelled.
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

// hasLeft reports whether the get that made a call has left, and others wait for it.
// The link's reader calls it.
func (s *sharing) hasLeft(c *call) bool {
	if c.shared == nil { // which the reader alone changes
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.shared.ownLeft
}
