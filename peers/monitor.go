package peers

import (
	"context"
	"log/slog"
	"time"
)

const (
	// tick is the period of the loop that sends pings and counts silence.
	tick = 50 * time.Millisecond
	// lateBy: if the loop itself is late by more, this node has been asleep or
	// starved, and what it did not hear is held against nobody.
	lateBy = 100 * time.Millisecond

	pingBusy = 100 * time.Millisecond // a link with an outstanding call
	pingIdle = 250 * time.Millisecond

	// silence is how long a link with an outstanding call may bring no frame
	// (or 4 times its p99, if that is more: machines are busy), but never more
	// than maxSilence. An idle link has 4 times as long.
	silence    = 250 * time.Millisecond
	maxSilence = 2 * time.Second

	// closeAfter ends a link that stays silent. Not earlier: a paused node
	// that resumes has answers for it that settle the books.
	closeAfter = 10 * time.Second
	// closeIncomingAfter is later, so that the side that pings decides.
	closeIncomingAfter = 15 * time.Second

	// loadingAfter is how long a call may run before its caller is told.
	loadingAfter = tick

	// readyWithin bounds how long a node waits to be heard by the others.
	readyWithin = 3 * time.Second
)

// monitor runs until ctx ends.
func (p *Peers) monitor(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := p.clock()
	doubtless := last // silence counts from here
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := p.clock()
		if now-last > int64(tick+lateBy) {
			p.doubts.Add(1)
			doubtless = now
		}
		last = now
		for _, pe := range p.ordered {
			p.watch(pe, now, doubtless)
		}
		for _, in := range p.links() {
			in.watch(now, doubtless)
		}
		p.updateReady(now)
	}
}

// watch looks after one member and the link to it.
func (p *Peers) watch(pe *peer, now, doubtless int64) {
	l := pe.link.Load()
	if l == nil {
		if down := pe.lost.Load(); now-max(down, doubtless) > int64(silence) {
			if open, _ := pe.state(); !open {
				p.openCircuit(pe, "no connection yet", false)
			}
		}
		return
	}
	l.mu.Lock()
	waiting, busy := l.waiting, l.busy
	l.mu.Unlock()

	heard := l.heard.Load()
	limit := max(silence, min(maxSilence, 4*l.rtt.percentile99()))
	quiet := time.Duration(0)
	switch {
	case waiting > 0:
		quiet = time.Duration(now - max(heard, busy, doubtless))
	case l.asked != 0:
		quiet = time.Duration(now - max(heard, l.asked, doubtless))
		limit *= 4
	}
	if quiet > limit {
		p.openCircuit(pe, "silent", false)
		l.silent()
	}
	if time.Duration(now-max(heard, doubtless)) > closeAfter {
		l.w.close(errSilent)
		return
	}

	if l.answeredPing.Swap(false) {
		l.asked = 0
	}
	period := pingIdle
	if waiting > 0 {
		period = pingBusy
		l.nextPing = min(l.nextPing, l.lastPing+int64(period))
	}
	if now >= l.nextPing {
		l.ping(now)
		l.lastPing = now
		l.nextPing = now + int64(jitter(period))
		if l.asked == 0 {
			l.asked = now
		}
	}
}

// updateReady notes when all members have been tried and all that this node
// calls hear it. Once ready, it stays so.
func (p *Peers) updateReady(now int64) {
	if reason := p.notReady.Load(); reason == nil || *reason == "" {
		return
	}
	reason := ""
	for _, pe := range p.ordered {
		open, _ := pe.state()
		switch l := pe.link.Load(); {
		case !pe.tried.Load():
			reason = "peer " + pe.id + " has not been tried yet"
		case !open && (l == nil || !l.hearsUs.Load()):
			reason = "peer " + pe.id + " does not hear this node yet"
		}
	}
	if reason != "" && now > p.started+int64(readyWithin) {
		p.log.Warn("ready although not heard by all", slog.String("reason", reason))
		reason = ""
	}
	p.notReady.Store(&reason)
}

// Ready reports whether the links to the other members are as they should be
// for a start: each was tried, and each that is called hears this node. It
// waits for that no longer than 3 s.
func (p *Peers) Ready() (ok bool, reason string) {
	if reason := p.notReady.Load(); reason != nil {
		return *reason == "", *reason
	}
	return false, "not started"
}
