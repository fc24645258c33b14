package peers

import (
	"context"
	"time"

	"kring/link"
)

// If a member does not answer in time, then it is slow, or it is silent, or this node
// has not listened. The three look alike to a caller that waits, and ask for opposite
// things. Callers must wait for a slow member: a second node would load the key once
// more. They must not wait for a silent one: each would hang until its deadline. And
// a member is not to blame for what this node did not hear: after a pause of this
// process, or on a starved machine, all members would seem silent at once, and this
// node would serve all keys alone.
//
// A link tells slow from silent: its reader answers pings whatever the calls wait for
// (see link.Outgoing.Watch). The monitor adds what one link cannot know. Its loop
// comes round every tick. If a round comes late, all else in this process was late,
// too, and silence counts from that round on. The usual lateness of the rounds adds to
// the patience with all members. A member without a link counts as silent when it has
// had none for as long as a link may be silent.
const (
	// tick is the period of the loop.
	tick = 50 * time.Millisecond
	// lateBy: if the loop itself is late by more, this node has been asleep or
	// starved, and takes no member for silent because of it.
	lateBy = 100 * time.Millisecond
	// firstContact is the least patience with a first connection: busy machines
	// start slowly. It is over before a handshake times out.
	firstContact = 500 * time.Millisecond
	// stopped is a round of the monitor that no busy machine explains: this
	// process did not run.
	stopped = time.Second
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
		round, late := own.next(p.clock())
		if late {
			p.doubts.Add(1)
		}
		p.ticked.Store(round.Now)
		p.doubtless.Store(round.Doubtless)
		for _, pe := range p.ordered {
			pe.watch(round)
		}
		for _, in := range p.links() {
			in.Watch(round)
		}
		p.updateReady(round.Now)
	}
}

// watch looks after the link to the member. If there is none for long, it opens the
// circuit.
func (pe *peer) watch(round link.Round) {
	if l := pe.link.Load(); l != nil {
		l.Watch(round)
		return
	}
	limit := round.Patience(link.EnoughPongs, 0)
	if !pe.tried.Load() {
		limit = max(limit, firstContact)
	}
	if round.Now-max(pe.lost.Load(), round.Doubtless) <= int64(limit) {
		return
	}
	if open, _ := pe.state(); !open {
		const reason = "no connection yet"
		pe.tellOpen(reason, pe.open(reason, false))
	}
}

// selfDoubt tells this node's own pauses from others' silence, by how late the rounds
// of its loop come.
type selfDoubt struct {
	last      int64
	doubtless int64       // silence counts from here
	lateness  link.Recent // of the rounds
}

func newSelfDoubt(now int64) selfDoubt { return selfDoubt{last: now, doubtless: now} }

// next begins a round of the loop, and says whether it is late.
func (s *selfDoubt) next(now int64) (round link.Round, late bool) {
	took := time.Duration(now - s.last)
	if late = took > tick+lateBy; late {
		s.doubtless = now
	}
	if took < stopped { // a pause must not set the patience for the next seconds
		s.lateness.Add(max(0, took-tick))
	}
	s.last = now
	return link.Round{Now: now, Doubtless: s.doubtless, Awake: min(took, tick+tick/2), Lateness: s.lateness.Percentile99()}, late
}
