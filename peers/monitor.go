package peers

import (
	"context"
	"time"

	"kring/internal/sockets"
)

const (
	// tick is the period of the loop that sends pings and counts silence.
	tick = 50 * time.Millisecond
	// lateBy: if the loop itself is late by more, this node has been asleep or
	// starved, and what it did not hear is held against nobody.
	lateBy = 100 * time.Millisecond

	pingBusy = 100 * time.Millisecond // a link with an outstanding call, or a new one
	pingIdle = 250 * time.Millisecond

	// Silence takes this many pings without an answer, pingBusy apart at least:
	// one may have been late.
	minUnanswered = 2

	// silence is how long a link with an outstanding call may bring no frame
	// (or 4 times its p99, if that is more: machines are busy), but never more
	// than maxSilence. An idle link has 4 times as long.
	silence    = 250 * time.Millisecond
	maxSilence = 2 * time.Second
	// newcomer is the least patience with a link before it has brought
	// enoughPongs: nobody knows yet how slow it is by habit.
	newcomer    = time.Second
	enoughPongs = 8
	// firstContact is the least patience with a first connection: busy machines
	// start slowly. It is over before a handshake times out.
	firstContact = 500 * time.Millisecond
	// stopped is a round of the monitor that no busy machine explains: this
	// process did not run.
	stopped = time.Second

	// closeAfter ends a link that stays silent. Not earlier: a paused node
	// that resumes has answers for it that settle the books.
	closeAfter = 10 * time.Second
	// closeIncomingAfter is later, so that the side that pings decides.
	closeIncomingAfter = 15 * time.Second

	// loadingAfter is how long a call may run before its caller is told.
	loadingAfter = tick
)

// monitor runs until ctx ends.
func (p *Peers) monitor(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	own := newSelfDoubt(p.clock())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := p.clock()
		if own.ticked(now) {
			p.doubts.Add(1)
		}
		p.ticked.Store(now)
		p.doubtless.Store(own.doubtless)
		for _, pe := range p.ordered {
			p.watch(pe, now, &own)
		}
		for _, in := range p.links() {
			in.watch(now, own.doubtless)
		}
		p.updateReady(now)
	}
}

// selfDoubt tells this node's own pauses from others' silence, by how late its
// loop comes round.
type selfDoubt struct {
	last      int64
	doubtless int64         // silence counts from here
	awake     time.Duration // how much of the last round this node was surely awake for
	lateness  recent        // of the rounds
}

func newSelfDoubt(now int64) selfDoubt { return selfDoubt{last: now, doubtless: now} }

// ticked notes that the loop came round, and says whether it was late.
func (s *selfDoubt) ticked(now int64) (late bool) {
	round := time.Duration(now - s.last)
	if late = round > tick+lateBy; late {
		s.doubtless = now
	}
	s.awake = min(round, tick+tick/2)
	if round < stopped { // else the pause would set the patience for the next seconds
		s.lateness.add(max(0, round-tick))
	}
	s.last = now
	return late
}

// patience is how long a link with an outstanding call may be silent, if that
// many pongs came over it and they took so long. A loop that comes round late
// shows a busy machine, before any ping does.
func (s *selfDoubt) patience(pongs int, rtt time.Duration) time.Duration {
	least := silence
	if pongs < enoughPongs {
		least = newcomer
	}
	return max(least, min(maxSilence, 4*max(rtt, s.lateness.percentile99())))
}

// watch looks after one member and the link to it.
func (p *Peers) watch(pe *peer, now int64, own *selfDoubt) {
	l := pe.link.Load()
	if l == nil {
		limit := own.patience(enoughPongs, 0)
		if !pe.tried.Load() {
			limit = max(limit, firstContact)
		}
		if down := pe.lost.Load(); now-max(down, own.doubtless) > int64(limit) {
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
	pongs, rtt := l.rtt.count(), l.rtt.percentile99()
	limit := own.patience(pongs, rtt)
	quiet := time.Duration(0)
	switch {
	case waiting > 0:
		if l.asked != 0 {
			busy = min(busy, l.asked) // a ping went unanswered before the call
		}
		quiet = time.Duration(now - max(heard, busy, own.doubtless))
	case l.asked != 0:
		quiet = time.Duration(now - max(heard, l.asked, own.doubtless))
		limit *= 4
	}
	// What this node slept through while it counted is not the member's silence.
	l.quiet = min(quiet, l.quiet+own.awake)
	if l.quiet > limit && l.unanswered >= minUnanswered && !l.behind(limit) {
		opened := p.tripCircuit(pe, "silent", false)
		l.silent() // before it is logged: the log may be slow
		p.tellOpened(pe, "silent", opened)
	}
	if time.Duration(now-max(heard, own.doubtless)) > closeAfter {
		l.w.close(errSilent)
		return
	}

	if l.answeredPing.Swap(false) {
		l.asked, l.unanswered = 0, 0
	}
	period := pingIdle
	if waiting > 0 || pongs < enoughPongs {
		period = pingBusy
		l.nextPing = min(l.nextPing, l.lastPing+int64(period))
	}
	if now >= l.nextPing {
		l.ping(now, period)
	}
}

// behind says whether it is this node that has not read what came, for want of
// a processor: then the silence is not the member's, as long as that takes no
// longer than any silence may.
func (l *link) behind(limit time.Duration) bool {
	if l.quiet > limit+maxSilence {
		return false
	}
	n, _ := sockets.Unread(l.conn)
	return n > 0
}
