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

// ErrUnknownAssignment says that there is no such assignment: it was never
// made, is completed, or has lapsed.
var ErrUnknownAssignment = errors.New("unknown assignment")

// ErrTooManyAssignments says that too many are unfinished.
var ErrTooManyAssignments = errors.New("too many unfinished assignments")

const (
	// maxAssignments bounds those of one pool in this process.
	maxAssignments = 100_000
	// maxSwept bounds how many lapsed ones are ended at a time.
	maxSwept = 100
)

// Assignment is a pick for somebody outside of this process, who may die
// without a word: it lapses unless it is completed or renewed.
type Assignment struct {
	ID        string
	Endpoint  Endpoint
	ExpiresIn time.Duration
}

// assignments are the unfinished ones that this process made.
type assignments struct {
	// begun is when the pool was made. next is when the first of them lapses,
	// in nanoseconds since then, by the monotonic clock; 0: there are none. A
	// pick looks here without taking a lock.
	begun time.Time
	next  atomic.Int64
	// mu guards byID and order, in which they lapse: all last equally long.
	mu    sync.Mutex
	byID  map[string]*list.Element // of *assigned
	order list.List
}

type assigned struct {
	id      string
	pick    Pick
	leased  bool // in Redis, under the same name
	expires time.Time
}

// Assign picks an endpoint for somebody else.
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
	id := pick.lease.token
	leased := id != ""
	if !leased {
		id = rand.Text()
	} else {
		p.shared.letGo(id) // its owner renews it, or nobody
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
// least_in_flight is shared, any process may be asked.
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

// Complete ends an assignment. To end one that is not there (any more) does
// nothing. Where the state of least_in_flight is shared, any process may be told.
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
		p.observe(m, m.epoch.Load(), false, o)
	}
	return nil
}

// lapse ends assignments whose time is over. Nothing is learned from them.
// Shared leases lapse by Redis's clock: here only this process forgets them.
func (p *Pool) lapse() {
	a := &p.assignments
	next := a.next.Load()
	if next == 0 {
		return
	}
	now := time.Now()
	if int64(now.Sub(a.begun)) < next {
		return
	}
	var gone []*assigned
	a.mu.Lock()
	for e := a.order.Front(); e != nil && len(gone) < maxSwept; e = a.order.Front() {
		one := e.Value.(*assigned)
		if now.Before(one.expires) {
			break
		}
		a.dropLocked(e)
		gone = append(gone, one)
	}
	a.mu.Unlock()
	for _, one := range gone {
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
		next = int64(e.Value.(*assigned).expires.Sub(a.begun))
	}
	a.next.Store(next)
}
