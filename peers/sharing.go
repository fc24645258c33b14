package peers

import "sync"

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
type sharing struct {
	mu    sync.Mutex // guards all below and the shareds
	loads map[uint64]*shared
}

// shared is a call whose answer is for other gets, too.
type shared struct {
	load   uint64
	call   *call
	others map[*call]struct{} // calls that were given up for it
	// ownLeft: the get that made the call has left.
	ownLeft bool
}

// join says whether a call that waits for a load is to be given up for another.
// It then ends with the other's answer, by end, unless it leaves before. Else
// later ones may join it. The call that started a load is never given up: the
// load is on the account of its get. The caller holds the lock of c's link.
func (s *sharing) join(c *call, load uint64, starter bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.loads[load]
	switch {
	case known != nil && known == c.shared:
		return false
	case known != nil && c.shared == nil && !starter:
		c.shared = known
		known.others[c] = struct{}{}
		return true
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
func (s *sharing) end(sh *shared, r Reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(sh)
	r.Shared = true
	for c := range sh.others {
		c.taken, c.err = &r, err
		close(c.done)
	}
	clear(sh.others)
}

// leave ends the waiting of a get whose call was given up. False: its answer is
// there. If it was the last that waited for the call, that is unwanted.
func (s *sharing) leave(c *call) (left bool, unwanted *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := c.shared
	if _, left = sh.others[c]; !left {
		return false, nil
	}
	delete(sh.others, c)
	if sh.ownLeft && len(sh.others) == 0 {
		s.forgetLocked(sh)
		unwanted = sh.call
	}
	return true, unwanted
}

// goesOn says whether others wait for a call whose own get leaves. If none
// does, nobody joins it any more.
func (s *sharing) goesOn(sh *shared) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(sh.others) == 0 {
		s.forgetLocked(sh)
		return false
	}
	sh.ownLeft = true
	return true
}
