package balance

import (
	"sync"
	"sync/atomic"
)

// Outcome is what became of a request.
type Outcome uint8

const (
	// Success: the endpoint did what was asked.
	Success Outcome = iota + 1
	// Failure: it did not, and is to blame: refused, timed out, 5xx, a bad answer.
	Failure
	// Cancelled: nothing was learned about the endpoint.
	Cancelled
)

// Pick is one assignment of a request to an endpoint. It is a small value that
// may be copied; all copies are one assignment.
type Pick struct {
	Endpoint Endpoint

	pool  *Pool
	m     *member
	lease *lease
	seq   uint64
	epoch uint64
	trial bool
}

// lease makes the first Done of a pick the only one. It outlives its pick and
// serves others after it; seq tells them apart, so that picking allocates
// nothing.
type lease struct{ seq atomic.Uint64 }

var leases = sync.Pool{New: func() any { return new(lease) }}

func newPick(p *Pool, m *member, epoch uint64, trial bool) Pick {
	m.assigned.Add(1)
	m.inFlight.Add(1)
	l := leases.Get().(*lease)
	return Pick{Endpoint: m.endpoint, pool: p, m: m, lease: l, seq: l.seq.Load(), epoch: epoch, trial: trial}
}

// Done says how the request ended. Only the first call counts, whichever copy
// it is made on; on a zero Pick it does nothing.
func (p Pick) Done(o Outcome) {
	if p.lease == nil || !p.lease.seq.CompareAndSwap(p.seq, p.seq+1) {
		return
	}
	leases.Put(p.lease)
	p.m.inFlight.Add(-1)
	p.pool.observe(p.m, p.epoch, p.trial, o)
}
