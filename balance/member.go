package balance

import (
	"sync/atomic"
	"time"
)

// goodProbes is how many good probes in a row admit a candidate.
const goodProbes = 2

// member is an endpoint in a pool. Order and endpoint never change: an endpoint
// with another URL is another member.
type member struct {
	endpoint Endpoint
	order    int // place in the configuration; stays when others are removed

	// current belongs to the policy, which writes it under its own lock: the
	// current weight, or the rest of a turn. It is atomic so that status can
	// read it.
	current atomic.Int64
	*tally

	// generation counts the changes of the health state. Outcomes of a pick of
	// an earlier generation are dropped.
	generation atomic.Uint64
	// suspect is false while a success would change nothing. A success then
	// needs no lock.
	suspect atomic.Bool
	// watched says that a goroutine probes the member. The mutex of probes
	// guards it.
	watched bool

	// The pool's mutex guards what follows.
	weight   int64
	eligible bool // set by the operator
	removed  bool
	// barred is the rule of admission that keeps the member out; "" means that
	// no rule does.
	barred string
	// candidate says that the member still needs good probes before it is
	// admitted; good counts them.
	candidate bool
	good      int
	seated    bool // in the current set
	// ramp is when the member came back, while slow start limits it.
	ramp time.Time
	health
}

// pickable reports whether configuration, operator and rules of admission allow
// m.
func (m *member) pickable() bool {
	return m.eligible && m.weight > 0 && m.barred == "" && !m.candidate
}

// tally holds the counts under an endpoint's name. It outlives the endpoint, so
// that an endpoint that is removed and added again goes on from its counts.
type tally struct {
	assigned atomic.Int64 // picks made in this process
	inFlight atomic.Int64 // unfinished picks of this process

	// The policy writes these under its lock.
	score       atomic.Int64 // of leastAssigned
	outstanding atomic.Int64 // of leastInFlight
	turn        int64        // of leastInFlight

	// The padding keeps two tallies out of one cache line.
	_ [88]byte
}
