package link

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kring/internal/sockets"
)

// A link is silent when it brings no frame although some are due: a call is
// outstanding, or a ping is. Slowness is no silence: the other node's reader answers
// pings whatever its calls wait for, so a node that is only slow, or waits for a
// load, is heard. And this node's own slowness is not the other's silence. Three
// things tell the two apart:
//
//   - The loop that calls Watch says since when it has been on time (Round.Doubtless)
//     and for how much of the last round this node was awake. Silence is counted in
//     what this node was awake for.
//   - Bytes that lie unread in the socket are this node's to read.
//   - One ping may be late. Silence takes several, each sent some time after the last.
//
// How long is too long depends on the link: a machine that is busy answers late by
// habit, and must not be given up for that.
const (
	// PingBusy is the period of pings on a link with an outstanding call, or a new
	// one, PingIdle that on any other.
	PingBusy = 100 * time.Millisecond
	PingIdle = 250 * time.Millisecond

	// minUnanswered pings, PingBusy apart at least, make silence.
	minUnanswered = 2

	// MinPatience is how long a link with an outstanding call may bring no frame
	// (or 4 times its p99, if that is more), but never more than maxPatience. An
	// idle link has 4 times as long.
	MinPatience = 250 * time.Millisecond
	maxPatience = 2 * time.Second
	// newcomer is the least patience with a link before it has brought
	// EnoughPongs: nobody knows yet how slow it is by habit.
	newcomer    = time.Second
	EnoughPongs = 8

	// closeAfter ends a link that stays silent. Not earlier: a paused node that
	// resumes sends answers over it, which are not lost then.
	closeAfter = 10 * time.Second
	// closeIncomingAfter is later, so that the side that pings decides.
	closeIncomingAfter = 15 * time.Second
)

// Round is one round of the loop that watches links.
type Round struct {
	Now       int64         // Node.Clock
	Doubtless int64         // silence counts from here
	Awake     time.Duration // how much of the last round this node was surely awake for
	Lateness  time.Duration // of the rounds, as a rule
}

// Patience is how long a link with an outstanding call may be silent, if that many
// pongs came over it and they took so long. Rounds that come late show a busy
// machine before any ping does.
func (r *Round) Patience(pongs int, rtt time.Duration) time.Duration {
	least := MinPatience
	if pongs < EnoughPongs {
		least = newcomer
	}
	return max(least, min(maxPatience, 4*max(rtt, r.Lateness)))
}

// silence is what Watch knows of an Outgoing link.
type silence struct {
	answeredPing atomic.Bool // a pong came since the last round

	// Of the goroutine that calls Watch alone:
	nextPing, lastPing int64
	quiet              time.Duration // that counts as silence
	asked              int64         // when the oldest unanswered ping was sent; 0: none
	unanswered         int           // pings since then that count: see minUnanswered
	lastCounted        int64         // when the newest of them was sent
}

// Watch looks after the link: it sends the pings that are due, calls Peer.Silent and,
// when even that has brought nothing for long, ends the link. One goroutine calls it,
// every few dozen milliseconds.
func (l *Outgoing) Watch(r Round) {
	l.mu.Lock()
	waiting, busy := l.waiting, l.busy
	l.mu.Unlock()

	s, heard := &l.silence, l.heard.Load()
	pongs, rtt := l.RTT.Count(), l.RTT.Percentile99()
	limit := r.Patience(pongs, rtt)
	quiet := time.Duration(0)
	switch {
	case waiting > 0:
		if s.asked != 0 {
			busy = min(busy, s.asked) // a ping went unanswered before the call
		}
		quiet = time.Duration(r.Now - max(heard, busy, r.Doubtless))
	case s.asked != 0:
		quiet = time.Duration(r.Now - max(heard, s.asked, r.Doubtless))
		limit *= 4
	}
	// What this node slept through while it counted is not the other's silence.
	s.quiet = min(quiet, s.quiet+r.Awake)
	if s.quiet > limit && s.unanswered >= minUnanswered && !l.behind(limit) {
		l.peer.Silent()
	}
	if time.Duration(r.Now-max(heard, r.Doubtless)) > closeAfter {
		l.w.close(ErrSilent)
		return
	}

	if s.answeredPing.Swap(false) {
		s.asked, s.unanswered = 0, 0
	}
	period := PingIdle
	if waiting > 0 || pongs < EnoughPongs {
		period = PingBusy
		s.nextPing = min(s.nextPing, s.lastPing+int64(period))
	}
	if r.Now >= s.nextPing {
		l.ping(r.Now, period)
	}
}

// behind reports whether it is this node that has not read what came, for want of a
// processor: then the silence is not the other's, as long as that takes no longer
// than any silence may.
func (l *Outgoing) behind(limit time.Duration) bool {
	if l.silence.quiet > limit+maxPatience {
		return false
	}
	n, _ := sockets.Unread(l.conn)
	return n > 0
}

// Ping sends the first ping. Watch sends those that follow.
func (l *Outgoing) Ping() { l.ping(l.node.Clock(), PingBusy) }

// ping sends a ping, and has the next one follow after about a period.
func (l *Outgoing) ping(now int64, period time.Duration) {
	s := &l.silence
	s.lastPing, s.nextPing = now, now+int64(Jitter(period))
	if s.asked == 0 {
		s.asked = now
	}
	if s.unanswered == 0 || time.Duration(now-s.lastCounted) >= PingBusy {
		s.unanswered++
		s.lastCounted = now
	}
	l.w.urgent(framePing, func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, uint64(now)) })
}

// pong takes the answer to a ping: the other node is alive.
func (l *Outgoing) pong(h header) error {
	return l.reader.body(h, func(b []byte) error {
		l.silence.answeredPing.Store(true)
		return l.peer.Pong(int64(binary.BigEndian.Uint64(b)), b[8:])
	})
}

// pinged answers a ping.
func (in *Incoming) pinged(h header) error {
	return in.reader.body(h, func(sent []byte) error {
		says := in.handler.AppendPong(sent[:len(sent):len(sent)])
		in.w.urgent(framePong, func(b []byte) []byte { return append(b, says...) })
		return nil
	})
}

// Watch ends a link from a node that sends nothing any more, and tells callers whose
// calls take long. One goroutine calls it, every few dozen milliseconds.
func (in *Incoming) Watch(r Round) {
	if time.Duration(r.Now-max(in.heard.Load(), r.Doubtless)) > closeIncomingAfter {
		in.w.close(ErrSilent)
		return
	}
	in.tellSlow(r.Now)
}

// Jitter takes off up to a quarter.
func Jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/4)
}

// Recent knows the newest samples of a duration.
type Recent struct {
	mu      sync.Mutex // guards all below
	samples [128]time.Duration
	n       int // how many were added, ever
	p99     time.Duration
}

// Add adds a sample.
func (r *Recent) Add(sample time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[r.n%len(r.samples)] = sample
	r.n++
	have := min(r.n, len(r.samples))
	sorted := r.samples
	slices.Sort(sorted[:have])
	r.p99 = sorted[have-1-have/100]
}

// Count is how many samples there are.
func (r *Recent) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.n, len(r.samples))
}

// Percentile99 is 0 without a sample.
func (r *Recent) Percentile99() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.p99
}
