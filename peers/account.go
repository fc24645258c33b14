package peers

import (
	"sync"
	"sync/atomic"
)

// account keeps the books of this node and one member equal (peer = served +
// abandoned, over the cluster) when answers to gets do not arrive. The node that
// answers counts an answer as served once it was written to a link (delivered), and
// the node that asks counts a get as abandoned if it got no counted answer: so an
// answer that was delivered and that no get took is in the books twice, and is taken
// off the abandoned gets. One that comes after its get has left is seen as it comes
// (unclaimed). One that never comes was on a link that broke: the node that answers
// says in its pongs how many answers it delivered on links that have ended, the node
// that asks knows how many of them it received, and the difference is lost. Both count
// for one process of the other node at a time, and what a process has said before it
// ends stays counted.
type account struct {
	unclaimed atomic.Int64 // counted answers that came, and that no get took

	// mu guards all below.
	mu sync.Mutex

	// Answers of this node to the member:
	asker     uint64 // incarnation of the member's process that asks
	delivered uint64 // to that process, on links that have ended

	// Answers of the member to this node:
	answerer uint64 // incarnation of the member's process that answers
	received uint64 // from that process, on links that have ended
	missed   int64  // delivered by that process on such links, and not received
	vanished int64  // the same of processes before it
}

// asked notes a link that a process of the member opened.
func (a *account) asked(by uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asker != by {
		a.asker, a.delivered = by, 0
	}
}

// deliver adds the answers that were delivered on a link of one of the member's
// processes. The link has ended.
func (a *account) deliver(to, answers uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asker == to {
		a.delivered += answers
	}
}

// deliveredTo is what pongs say to one of the member's processes.
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
