package balance

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrUnknownAssignment says that the assignment was never made, is completed,
// or has lapsed.
var ErrUnknownAssignment = errors.New("unknown assignment")

// ErrTooManyAssignments says that the pool has too many unfinished assignments.
var ErrTooManyAssignments = errors.New("too many unfinished assignments")

const (
	// maxAssignments bounds the unfinished assignments of one pool in this
	// process.
	maxAssignments = 100_000
	// maxSwept bounds how many lapsed assignments one sweep ends.
	maxSwept = 100
)

// Assignment is a pick for a caller outside of this process. The caller may die
// without a word, so an assignment lapses unless it is completed or renewed.
type Assignment struct {
	ID        string
	Endpoint  Endpoint
	ExpiresIn time.Duration
}

// assignments are the unfinished assignments that this process made.
type assignments struct {
	// start is when the pool was made. next is when the earliest assignment
	// lapses, in nanoseconds of the monotonic clock since start; 0 means that
	// there is none. A pick reads next without a lock.
	start time.Time
	next  atomic.Int64
	// mu guards byID and order. All assignments last equally long, so order is
	// the order in which they lapse.
	mu    sync.Mutex
	byID  map[string]*list.Element // of *assigned
	order list.List
}

type assigned struct {
	id      string
	pick    Pick
	leased  bool // its lease is in Redis, under the same id
	expires time.Time
}

// Assign picks an endpoint for a caller outside of this process.
func (p *Pool) Assign(ctx context.Context) (Assignment, error) {
	a := &p.assignments
	p.lapse()
	a.mu.Lock()
	full := a.order.Len() >= maxAssignments
	a.mu.Unlock()
	if full {
		return Assignment{}, ErrTooManyAssignments
	}
	pick, err := p.Pick(ctx)
	if err != nil {
		return Assignment{}, err
	}
	id := pick.ticket.token
	leased := id != ""
	if !leased {
		id = rand.Text()
	} else {
		p.shared.forget(id) // the remote caller renews it, not this process
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID == nil {
		a.byID = make(map[string]*list.Element)
	}
	a.byID[id] = a.order.PushBack(&assigned{id, pick, leased, time.Now().Add(p.cfg.Lease)})
	a.noteLocked()
	return Assignment{ID: id, Endpoint: pick.Endpoint, ExpiresIn: p.cfg.Lease}, nil
}

// Renew lets an assignment last for another lease from now. Where the state of
// least_in_flight is shared, every process accepts the call.
func (p *Pool) Renew(ctx context.Context, id string) (time.Duration, error) {
	p.lapse()
	a := &p.assignments
	a.mu.Lock()
	e := a.byID[id]
	remote := p.shared != nil && p.shared.leases()
	if e != nil {
		remote = e.Value.(*assigned).leased
	}
	a.mu.Unlock()
	if remote {
		if err := p.shared.renew(ctx, id); err != nil {
			return 0, err
		}
	} else if e == nil {
		return 0, ErrUnknownAssignment
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if e = a.byID[id]; e != nil {
		e.Value.(*assigned).expires = time.Now().Add(p.cfg.Lease)
		a.order.MoveToBack(e)
		a.noteLocked()
	} else if !remote {
		return 0, ErrUnknownAssignment
	}
	return p.cfg.Lease, nil
}

// Complete ends an assignment. It does nothing for an unknown one. Where the
// state of least_in_flight is shared, every process accepts the call.
func (p *Pool) Complete(ctx context.Context, id string, o Outcome) error {
	p.lapse()
	a := &p.assignments
	a.mu.Lock()
	e := a.byID[id]
	a.dropLocked(e)
	a.mu.Unlock()
	if e != nil {
		e.Value.(*assigned).pick.Done(o)
		return nil
	}
	if p.shared == nil || !p.shared.leases() {
		return nil
	}
	name, err := p.shared.complete(ctx, id)
	if err != nil {
		return fmt.Errorf("complete an assignment of pool %s: %w", p.cfg.Name, err)
	}
	p.mu.Lock()
	var m *member
	if i := p.indexLocked(name); i >= 0 {
		m = p.members[i]
	}
	p.mu.Unlock()
	if m != nil {
		p.observe(m, m.generation.Load(), false, o)
	}
	return nil
}

// lapse ends assignments whose time is over. They teach nothing about the
// endpoint. A lease in Redis lapses by Redis's clock; this process only forgets
// it.
func (p *Pool) lapse() {
	a := &p.assignments
	next := a.next.Load()
	if next == 0 {
		return
	}
	now := time.Now()
	if int64(now.Sub(a.start)) < next {
		return
	}
	var lapsed []*assigned
	a.mu.Lock()
	for e := a.order.Front(); e != nil && len(lapsed) < maxSwept; e = a.order.Front() {
		one := e.Value.(*assigned)
		if now.Before(one.expires) {
			break
		}
		a.dropLocked(e)
		lapsed = append(lapsed, one)
	}
	a.mu.Unlock()
	for _, one := range lapsed {
		if one.leased {
			one.pick.end(Cancelled)
		} else {
			one.pick.Done(Cancelled)
		}
	}
}

func (a *assignments) dropLocked(e *list.Element) {
	if e != nil {
		delete(a.byID, a.order.Remove(e).(*assigned).id)
		a.noteLocked()
	}
}

func (a *assignments) noteLocked() {
	next := int64(0)
	if e := a.order.Front(); e != nil {
		next = int64(e.Value.(*assigned).expires.Sub(a.start))
	}
	a.next.Store(next)
}
