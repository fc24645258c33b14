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
	// Failure: it did not, and is to blame: refused, timed out, a status that
	// Blames names, a bad answer.
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
type lease struct {
	seq atomic.Uint64
	// token is that of the policy's choice. It belongs to whoever moves seq on.
	token string
}

var leases = sync.Pool{New: func() any { return new(lease) }}

func newPick(p *Pool, c choice, epoch uint64, trial bool) Pick {
	c.m.assigned.Add(1)
	c.m.inFlight.Add(1)
	l := leases.Get().(*lease)
	l.token = c.token
	return Pick{Endpoint: c.m.endpoint, pool: p, m: c.m, lease: l, seq: l.seq.Load(), epoch: epoch, trial: trial}
}

// Done says how the request ended. Only the first call counts, whichever copy
// it is made on; on a zero Pick it does nothing. Where the pool's state is
// shared, it takes as long as telling the others does.
func (p Pick) Done(o Outcome) {
	if token, first := p.end(o); first && p.pool.releases {
		p.pool.policy.release(choice{m: p.m, token: token})
	}
}

// end is Done but for what the policy has to be told: that the choice is over.
func (p *Pick) end(o Outcome) (token string, first bool) {
	if p.lease == nil || !p.lease.seq.CompareAndSwap(p.seq, p.seq+1) {
		return "", false
	}
	token = p.lease.token
	leases.Put(p.lease)
	p.m.inFlight.Add(-1)
	p.pool.observe(p.m, p.epoch, p.trial, o)
	return token, true
}
