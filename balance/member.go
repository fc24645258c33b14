package balance

import (
	"sync/atomic"
	"time"
)

// goodProbes in a row admit a candidate to a pool that probes.
const goodProbes = 2

// member is an endpoint in a pool. Order and endpoint never change: another
// URL is another member.
type member struct {
	endpoint Endpoint
	order    int // place in the configuration; stays when others are removed

	// current belongs to the policies that take turns, who write it under
	// their own lock: the current weight, or what is left of a turn. It is
	// atomic so that status can read it.
	current atomic.Int64
	*tally

	// epoch is the number of times that health has changed its mind. What a
	// pick of an earlier epoch learns is no longer news.
	epoch atomic.Uint64
	// suspect is false while a success would teach nothing, so that it need
	// not take the pool's lock.
	suspect atomic.Bool
	// watched says that a goroutine probes it. The mutex of probes guards it.
	watched bool

	// The pool's mutex guards what follows.
	weight   int64
	eligible bool // the operator's word
	removed  bool
	// barred is the rule of admission that keeps the member out for good.
	barred string
	// candidate says that probes have yet to show that the member is well;
	// good is how many of them have, in a row.
	candidate bool
	good      int
	seated    bool // in the present set
	// ramp is when the member came back, while slow start holds it back.
	ramp time.Time
	health
}

// pickable reports whether configuration, operator and the rules of admission
// allow m.
func (m *member) pickable() bool {
	return m.eligible && m.weight > 0 && m.barred == "" && !m.candidate
}

// tally is what was counted under an endpoint's name. It outlives the
// endpoint, so that one that is removed and added again goes on from there.
type tally struct {
	assigned atomic.Int64 // picks made in this process
	inFlight atomic.Int64 // of those, the unfinished ones

	// The policy's own, written under its lock.
	score atomic.Int64 // of leastAssigned
	held  atomic.Int64 // of leastInFlight
	turn  int64        // of leastInFlight

	// Two tallies must not share a line of the cores' caches.
	_ [88]byte
}
