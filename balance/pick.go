package balance

import (
	"sync"
	"sync/atomic"
)

// Outcome is how a request ended.
type Outcome uint8

const (
	// Success: the endpoint did its work.
	Success Outcome = iota + 1
	// Failure: the endpoint is to blame: no connection, a time-out, a status
	// that Blames names, a bad answer.
	Failure
	// Cancelled: nothing was learned about the endpoint.
	Cancelled
)

// Pick is one assignment of a request to an endpoint. It is a small value that
// may be copied; all copies are one assignment.
type Pick struct {
	Endpoint Endpoint

	pool       *Pool
	m          *member
	ticket     *ticket
	seq        uint64
	generation uint64
	trial      bool
}

// ticket makes the first Done of a pick the only one. Tickets are pooled, so
// that a pick allocates nothing; seq tells the uses of a ticket apart.
type ticket struct {
	seq atomic.Uint64
	// token is that of the policy's choice. It belongs to the caller that
	// advances seq.
	token string
}

var tickets = sync.Pool{New: func() any { return new(ticket) }}

func newPick(p *Pool, c choice, generation uint64, trial bool) Pick {
	c.m.assigned.Add(1)
	c.m.inFlight.Add(1)
	l := tickets.Get().(*ticket)
	l.token = c.token
	return Pick{Endpoint: c.m.endpoint, pool: p, m: c.m, ticket: l, seq: l.seq.Load(), generation: generation, trial: trial}
}

// Done says how the request ended. Only the first call counts, on whichever
// copy; on a zero Pick it does nothing. Where the pool's state is shared, Done
// waits for Redis.
func (p Pick) Done(o Outcome) {
	if token, first := p.end(o); first && p.pool.releases {
		p.pool.policy.release(choice{m: p.m, token: token})
	}
}

// end does what Done does, but does not tell the policy.
func (p *Pick) end(o Outcome) (token string, first bool) {
	if p.ticket == nil || !p.ticket.seq.CompareAndSwap(p.seq, p.seq+1) {
		return "", false
	}
	token = p.ticket.token
	tickets.Put(p.ticket)
	p.m.inFlight.Add(-1)
	p.pool.observe(p.m, p.generation, p.trial, o)
	return token, true
}
