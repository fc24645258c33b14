package link

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A link is silent when it brings no frame although a call or a ping waits for one. A
// node that is slow, or waits for a load, is not silent: its reader answers pings
// whatever its calls wait for. And this node's own slowness must not pass for the
// other's silence. Three things tell the two apart:
//
//   - The loop that calls Watch says since when it has been on time (Round.Doubtless),
//     and for how much of the last round this node was awake (Round.Awake). Other time
//     is not counted.
//   - Bytes that lie unread in the socket have come, and this node has yet to read them.
//   - One ping may be late. Silence takes several, each sent some time after the last.
//
// How long is too long depends on the link: a busy machine answers late by habit.
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
	// newcomer is the least patience with a link before it has brought EnoughPongs:
	// its habit is not known yet.
	newcomer    = time.Second
	EnoughPongs = 8

	// closeAfter ends a link that stays silent. A node that was paused for less has
	// answers to send over it.
	closeAfter = 10 * time.Second
	// closeIncomingAfter is later, so that the side that pings decides.
	closeIncomingAfter = 15 * time.Second
)

// Round is one round of the loop that watches links.
type Round struct {
	Now       int64         // Node.Clock
	Doubtless int64         // silence counts from here
	Awake     time.Duration // how long this node was surely awake in the last round
	Lateness  time.Duration // how late recent rounds came: their 99th percentile
}

// Patience is how long a link with an outstanding call may be silent, after so many
// pongs with so long a round trip. Rounds that come late show a busy machine before
// any ping does.
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
	quiet              time.Duration // how much silence counts
	asked              int64         // when the oldest unanswered ping was sent; 0: none
	unanswered         int           // pings since then that count: see minUnanswered
	lastCounted        int64         // when the newest of them was sent
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
