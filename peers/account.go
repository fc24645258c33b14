package peers

import (
	"sync"
	"sync/atomic"
)

// account counts the answers to gets that were lost between this node and one
// member. The node that answers counts an answer as served once its link has
// taken it: the answer is delivered. The node that asks counts a get as abandoned
// if it got no counted answer; so an answer that was delivered and that no get
// took would be in the books twice, and is taken off the abandoned gets. One that
// came too late is seen as it comes; one that never came is seen in the pongs,
// which say how many answers were delivered over links that have ended: from
// these the asking node subtracts those that it received. Both sides count for
// one process of the other at a time, and a process that dies takes along what it
// has not said, together with its count of served ones: so the sums stay equal.
type account struct {
	unclaimed atomic.Int64 // counted answers that came, and that no get took

	// mu guards all below.
	mu sync.Mutex

	// Answers of this node to the member:
	asker     uint64 // incarnation of the member's process that the number is about
	delivered uint64 // on links that have ended

	// Answers of the member to this node:
	answerer uint64 // incarnation of its process that the next two are about
	received uint64 // on links that have ended
	missed   int64  // delivered on them, and not received
	vanished int64  // the same of earlier processes
}

// asked notes a link that a process of the member opened.
func (a *account) asked(by uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asker != by {
		a.asker, a.delivered = by, 0
	}
}

// deliver adds the answers that were delivered on a link of a process of the
// member's. The link has ended.
func (a *account) deliver(to, answers uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asker == to {
		a.delivered += answers
	}
}

// deliveredTo is what a pong says to a process of the member's.
func (a *account) deliveredTo(asker uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asker != asker {
		return 0
	}
	return a.delivered
}

// answers notes a link to a process of the member.
func (a *account) answers(from uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answerer != from {
		a.vanished += a.missed
		a.answerer, a.received, a.missed = from, 0, 0
	}
}

// receive adds the counted answers that came over a link. The link has ended.
func (a *account) receive(answers uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.received += answers
}

// told takes what a pong says. The member may not know yet of the last link's
// end, or die before it can say so: a smaller number than before takes nothing
// back.
func (a *account) told(delivered uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missed = max(a.missed, int64(delivered)-int64(a.received))
}

// lost is how many answers the member has counted and no get of this node took.
func (a *account) lost() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.vanished + a.missed + a.unclaimed.Load()
}
