package httpserver

import (
	"container/list"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// smallPart is the part of a budget that a request may take past those that
	// wait, one in so many: 256 KiB of 64 MiB.
	smallPart = 256
	// patience is how long a request waits for room before it is refused.
	patience = 3 * time.Second
)

// Budget bounds the bytes that requests keep in memory for one purpose. Its
// makers are NewBodies and NewAnswers.
//
// A request that finds no room waits for 3 s at most, first come, first served;
// a request that needs little may go before the others. Meanwhile the clients
// that have kept the node waiting longest are turned away. A request that is
// larger than the whole budget gets its room when nothing else has any.
type Budget struct {
	max int64
	// reserve is the room that only requests that need little may take.
	reserve int64
	// full is the error of a refused request.
	full error
	// watch makes connections follow how much their clients take.
	watch bool
	// quiet is how long a client has kept its request waiting, and 0 if it does
	// not. After quietAfter the client may be turned away; turnAway does it.
	quiet      func(c *connection, now time.Time) time.Duration
	quietAfter time.Duration
	turnAway   func(*connection)

	refused    atomic.Uint64 // requests that found no room
	turnedAway atomic.Uint64 // clients that made room

	// mu guards the rest, and the fields of the shares.
	mu     sync.Mutex
	used   int64
	shares map[*Share]struct{} // those that have a connection and room
	queue  list.List           // of *waiter

	moving sync.Mutex // see Share.move

	// looking is locked by the one request that looks at the clients. It guards
	// looked.
	looking sync.Mutex
	looked  time.Time
}

// BudgetStats is the state of a budget.
type BudgetStats struct {
	Max        int64  // bytes that there are
	InUse      int64  // bytes that are taken now
	Refused    uint64 // requests that found no room
	TurnedAway uint64 // clients that made room for others
}

// Stats returns the state of now.
func (b *Budget) Stats() BudgetStats {
	return BudgetStats{Max: b.max, InUse: b.inUse(), Refused: b.refused.Load(), TurnedAway: b.turnedAway.Load()}
}

func (b *Budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Share is what one request has of a budget. Only the request's own goroutine
// may use it.
type Share struct {
	budget *Budget
	conn   *connection // nil: there is no client to turn away
	flat   int64       // bytes besides the values
	values interface {
		// heldLocked is the share's part of the values that it holds, in bytes.
		heldLocked() int64
	} // nil: the budget has none
	turnedAway bool
}

// Share begins a request's use of the budget. Release ends it.
func (b *Budget) Share(r *http.Request) *Share { return b.share(connectionOf(r)) }

func (b *Budget) share(conn *connection) *Share {
	s := new(Share)
	s.begin(b, conn)
	return s
}

func (s *Share) begin(b *Budget, conn *connection) {
	s.budget, s.conn = b, conn
	if conn != nil && b.watch {
		conn.watched = true
	}
}

// Take makes room for n more bytes, or says why there is none.
func (s *Share) Take(ctx context.Context, n int64) error {
	b := s.budget
	b.mu.Lock()
	ok := b.takeLocked(s, n)
	pressed := b.used > b.max/2
	b.mu.Unlock()
	if !ok {
		return b.wait(ctx, s, n)
	}
	if pressed {
		b.relieve()
	}
	return nil
}

// Give gives back n of the bytes that Take took.
func (s *Share) Give(n int64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.flat -= n
	s.budget.giveLocked(n)
}

// Taken is how many bytes Take took that were not given back.
func (s *Share) Taken() int64 {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.flat
}

// Release gives back all bytes. It may be called twice.
func (s *Share) Release() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.releaseLocked()
}

func (s *Share) releaseLocked() {
	if s.conn != nil && s.budget.watch {
		s.conn.watched = false
	}
	delete(s.budget.shares, s)
	n := s.flat
	s.flat = 0
	s.budget.giveLocked(n)
}

// weightLocked is about how many bytes the end of s would free.
func (s *Share) weightLocked() int64 {
	n := s.flat
	if s.values != nil {
		n += s.values.heldLocked()
	}
	return n
}

func (b *Budget) fitsLocked(n int64) bool {
	most := b.max
	if n > b.max/smallPart {
		most -= b.reserve
	}
	return b.used+n <= most || b.used == 0
}

// takeLocked takes n bytes if there is room and nobody waits for it. A request
// that needs little does not wait behind those that need much. If s is nil, the
// caller accounts for the bytes.
func (b *Budget) takeLocked(s *Share, n int64) bool {
	if b.queue.Len() > 0 && n > b.max/smallPart || !b.fitsLocked(n) {
		return false
	}
	b.grantLocked(s, n)
	return true
}

func (b *Budget) grantLocked(s *Share, n int64) {
	b.used += n
	if s != nil {
		s.flat += n
		b.enterLocked(s)
	}
}

// enterLocked makes a client one of those that may be turned away.
func (b *Budget) enterLocked(s *Share) {
	if s.conn != nil {
		b.shares[s] = struct{}{}
	}
}

// giveLocked gives back n bytes to the requests that wait for them.
func (b *Budget) giveLocked(n int64) {
	b.used -= n
	b.admitLocked()
}

func (b *Budget) admitLocked() {
	for at := b.queue.Front(); at != nil; at = b.queue.Front() {
		w := at.Value.(*waiter)
		if !b.fitsLocked(w.bytes) {
			return
		}
		b.queue.Remove(at)
		b.grantLocked(w.share, w.bytes)
		close(w.granted)
	}
}

// waiter is a request that waits for room.
type waiter struct {
	share   *Share // nil: the waiting caller accounts for the bytes
	bytes   int64
	granted chan struct{}
}

// wait waits until there is room for n bytes. The caller must not hold mu.
func (b *Budget) wait(ctx context.Context, s *Share, n int64) error {
	w := &waiter{share: s, bytes: n, granted: make(chan struct{})}
	b.mu.Lock()
	at := b.queue.PushBack(w)
	b.admitLocked() // there may be room by now
	b.mu.Unlock()
	end := time.NewTimer(patience)
	defer end.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	b.relieve()
	for {
		select {
		case <-w.granted:
			return nil
		case <-look.C:
			b.relieve()
			continue
		case <-end.C:
		case <-ctx.Done():
		}
		break
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	default:
	}
	b.queue.Remove(at)
	b.admitLocked() // the next in the queue may need less
	if err := ctx.Err(); err != nil {
		return err
	}
	b.refused.Add(1)
	return b.full
}
