package peers

import (
	"log/slog"
	"math/rand/v2"
	"time"
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
// touches the member; pings do, off the path of any request, and a pong closes
// it. Guarded by Peers.mu.
type circuit struct {
	open   bool
	gone   bool // open because nothing listens at the address: its memory is lost
	reason string
	since  time.Time

	cool     time.Duration // it stays open for this long at least
	closed   time.Time     // when a pong last closed it; zero: never
	relapses int
	outages  uint64
}

// startTogether is how long a member that was never reached is taken for one
// that is still starting.
const startTogether = 10 * time.Second

// openCircuit stops calls to a member. If its circuit is open already, only
// the reason changes.
func (p *Peers) openCircuit(pe *peer, reason string, gone bool) {
	p.tellOpened(pe, reason, p.openedCircuit(pe, reason, gone))
}

// tellOpened warns of a member that is not called. Of nodes that start one
// after the other, as they do, it warns only if that takes long.
func (p *Peers) tellOpened(pe *peer, reason string, opened bool) {
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
	return !pe.circuit.closed.IsZero()
}

func (p *Peers) openedCircuit(pe *peer, reason string, gone bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	c := &pe.circuit
	if c.open && c.reason == reason && c.gone == gone {
		return false
	}
	opens := !c.open
	if opens {
		if !c.closed.IsZero() && now.Sub(c.closed) < relapseWithin {
			c.relapses++
			c.cool = jitter(min(maxCool, minCool<<min(c.relapses-1, 10)))
		} else {
			c.relapses, c.cool = 0, 0
		}
		c.open, c.since = true, now
		c.outages++
		p.outages++
	}
	c.reason, c.gone = reason, gone
	outage := p.outages
	p.view.Store(p.view.Load().with(pe.id, func(m *ViewMember) {
		if m.State == StateActive {
			m.State, m.Since, m.outage = StateDown, c.since, outage
		}
		m.Reason = reason
	}))
	p.changedLocked()
	return opens
}

// closeCircuit lets calls to a member begin again, unless it relapsed only
// just now; then a later pong does.
func (p *Peers) closeCircuit(pe *peer) {
	if p.closedCircuit(pe) {
		pe.starting.Store(false)
		p.log.Info("peer is called again", slog.String("peer", pe.id))
	}
}

func (p *Peers) closedCircuit(pe *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	c := &pe.circuit
	if c.closed.IsZero() && !c.open {
		c.closed = now // the first contact
	}
	if !c.open || now.Sub(c.since) < c.cool {
		return false
	}
	c.open, c.gone, c.reason, c.since, c.closed = false, false, "", now, now
	pe.calledSince.Store(p.clock())
	p.view.Store(p.view.Load().with(pe.id, func(m *ViewMember) {
		m.State, m.Since, m.Reason, m.outage = StateActive, now, "", 0
	}))
	p.changedLocked()
	return true
}

// changedLocked wakes those who wait for a circuit or a link.
func (p *Peers) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// jitter takes off up to a quarter.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/4)
}
