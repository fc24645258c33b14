package peers

import (
	"log/slog"
	"time"

	"kring/link"
)

const (
	// relapseWithin is how soon after it closed an opening counts as a relapse.
	relapseWithin = time.Minute
	// minCool is how long a circuit stays open at least after its first relapse;
	// it doubles with each further one, up to maxCool: a node that was only
	// paused must be back within 5 s.
	minCool = 100 * time.Millisecond
	maxCool = 2 * time.Second
)

// circuit says whether a member is called. While it is open no data call
// touches the member. Pings do, off the path of any request, and a pong closes
// it. It has no lock of its own.
type circuit struct {
	isOpen bool
	gone   bool      // open because nothing listens at the address: its memory is lost
	reason string    // why it is open, or ""
	since  time.Time // when it last opened or closed
	outage uint64    // number of the outage that keeps it open; 0: closed

	cool     time.Duration // it stays open for this long at least
	closed   time.Time     // when a pong last closed it, or the first contact; zero: no contact yet
	relapses int
	outages  uint64
}

// open stops the calls, under the number of a new outage. If the circuit is
// open already, only the reason changes. It reports whether the circuit was closed
// before, and whether anything has changed.
func (c *circuit) open(now time.Time, outage uint64, reason string, gone bool) (opened, changed bool) {
	if c.isOpen && c.reason == reason && c.gone == gone {
		return false, false
	}
	opened = !c.isOpen
	if opened {
		if c.hadContact() && now.Sub(c.closed) < relapseWithin {
			c.relapses++
			c.cool = link.Jitter(min(maxCool, minCool<<min(c.relapses-1, 10)))
		} else {
			c.relapses, c.cool = 0, 0
		}
		c.isOpen, c.since, c.outage = true, now, outage
		c.outages++
	}
	c.reason, c.gone = reason, gone
	return opened, true
}

// close lets calls begin again, and reports whether it did. It does not while
// the circuit cools off from a relapse; a later pong closes it then.
func (c *circuit) close(now time.Time) (closed bool) {
	if c.closed.IsZero() && !c.isOpen {
		c.closed = now // the first contact
	}
	if !c.isOpen || now.Sub(c.since) < c.cool {
		return false
	}
	c.isOpen, c.gone, c.reason, c.outage = false, false, "", 0
	c.since, c.closed = now, now
	return true
}

// hadContact reports whether the member ever answered.
func (c *circuit) hadContact() bool { return !c.closed.IsZero() }

// open opens the member's circuit, and reports whether it was closed before. The
// caller logs it with tellOpen, after what else the opening asks for: a log may be slow.
func (pe *peer) open(reason string, gone bool) (opened bool) {
	p := pe.p
	p.mu.Lock()
	defer p.mu.Unlock()
	opened, changed := pe.circuit.open(time.Now(), p.outages+1, reason, gone)
	if opened {
		p.outages++
	}
	if changed {
		p.publishLocked()
	}
	return opened
}

// close closes the member's circuit, unless that cools off from a relapse.
func (pe *peer) close() {
	p := pe.p
	p.mu.Lock()
	closed := pe.circuit.close(time.Now())
	if closed {
		pe.calledSince.Store(p.clock())
		p.publishLocked()
	}
	p.mu.Unlock()
	if closed {
		pe.starting.Store(false)
		p.log.Info("peer is called again", slog.String("peer", pe.id))
	}
}

// startTogether is how long a member that was never reached may still be starting.
const startTogether = 10 * time.Second

// tellOpen logs that the member is not called; opened is what open has reported. For
// a member that was never reached the line becomes a warning only after a while:
// nodes start one after the other.
func (pe *peer) tellOpen(reason string, opened bool) {
	p := pe.p
	peer, why := slog.String("peer", pe.id), slog.String("reason", reason)
	if !pe.reached() && p.clock()-p.started < int64(startTogether) {
		if opened {
			pe.starting.Store(true)
			p.log.Info("peer is not reached yet", peer, why)
		}
		return
	}
	if pe.starting.Swap(false) || opened {
		p.log.Warn("peer is not called", peer, why)
	}
}

// reached reports whether there was ever contact with the member.
func (pe *peer) reached() bool {
	pe.p.mu.Lock()
	defer pe.p.mu.Unlock()
	return pe.circuit.hadContact()
}
