package httpserver

import (
	"context"
	"net/http"
	"slices"
	"time"
	"weak"
)

const (
	// stalledAfter is how long a client must have taken nothing before its
	// connection may be closed for others.
	stalledAfter = 3 * time.Second
	// smallReserve is the part of the budget that large answers leave to small
	// ones, one in so many: 1 MiB of 64 MiB. The kernel takes a small answer
	// whole, even for a client that reads nothing, so few small answers are in
	// memory at a time.
	smallReserve = 64
)

// Answers is the budget of what is on its way to clients: encoded answers, and
// values of the type V, those included that are still arriving from elsewhere. A
// value is charged once, however many answers have it. Without room, the
// connections whose clients have taken nothing for longest, and for 3 s at
// least, are closed. If every client makes progress, the newcomer is refused.
type Answers[V any] struct {
	Budget
	size    func(*V) int64
	charges map[*V]charge // guarded by mu
}

// charge is what a value takes, once for all its holders.
type charge struct {
	bytes   int64
	holders int64
}

// NewAnswers makes a budget of so many bytes. A refused request gets the error
// full. The size of a value is its bytes in memory.
func NewAnswers[V any](bytes int64, full error, size func(*V) int64) *Answers[V] {
	return &Answers[V]{
		Budget: Budget{
			max: bytes, reserve: bytes / smallReserve, full: full, watch: true,
			quiet: (*connection).stalled, quietAfter: stalledAfter, turnAway: (*connection).cut,
			shares: make(map[*Share]struct{}),
		},
		size: size, charges: make(map[*V]charge),
	}
}

// Take charges a value of so many bytes that is about to arrive. It reports
// whether there was room at once.
func (a *Answers[V]) Take(v *V, bytes int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.takeLocked(nil, int64(bytes)) {
		return false
	}
	a.charges[v] = charge{bytes: int64(bytes), holders: 1}
	return true
}

// Wait is Take for a caller that can wait for room.
func (a *Answers[V]) Wait(ctx context.Context, v *V, bytes int) error {
	if err := a.wait(ctx, nil, int64(bytes)); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.charges[v] = charge{bytes: int64(bytes), holders: 1}
	return nil
}

// Give ends what Take or Wait began. The value stays charged as long as answers
// hold it.
func (a *Answers[V]) Give(v *V) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropLocked(v)
}

// joinLocked adds a holder to a value that is charged already.
func (a *Answers[V]) joinLocked(v *V) bool {
	c, ok := a.charges[v]
	if ok {
		c.holders++
		a.charges[v] = c
	}
	return ok
}

// leaveLocked takes a holder from a value. It returns the bytes that are no
// longer charged to anybody.
func (a *Answers[V]) leaveLocked(v *V) int64 {
	c, ok := a.charges[v]
	switch {
	case !ok:
	case c.holders > 1:
		c.holders--
		a.charges[v] = c
	default:
		delete(a.charges, v)
		return c.bytes
	}
	return 0
}

func (a *Answers[V]) dropLocked(v *V) {
	if n := a.leaveLocked(v); n > 0 {
		a.giveLocked(n)
	}
}

// Answer is the share of one answer that is on its way.
type Answer[V any] struct {
	Share
	of    *Answers[V]
	held  []*V
	first [1]*V // where held begins: most answers have one value
}

// Answer begins an answer that is charged to the budget. Its connection follows
// how much the client takes, until Release.
func (a *Answers[V]) Answer(r *http.Request) *Answer[V] { return a.answer(connectionOf(r)) }

func (a *Answers[V]) answer(conn *connection) *Answer[V] {
	s := &Answer[V]{of: a}
	s.begin(&a.Budget, conn)
	s.values = s
	return s
}

// Hold charges values to the budget, each once however many answers hold it. If
// it has to wait, it does not keep the values in memory: a value that nobody else
// has kept meanwhile is nil afterwards. So the caller must have no other
// reference to them. After an error no value is held.
func (s *Answer[V]) Hold(ctx context.Context, values []*V) error {
	a := s.of
	a.mu.Lock()
	need := int64(0)
	for _, v := range values {
		if !a.joinLocked(v) {
			n := a.size(v)
			a.charges[v] = charge{bytes: n, holders: 1}
			need += n
		}
	}
	ok := need == 0 || a.takeLocked(nil, need)
	if ok {
		s.keepLocked(values)
	} else {
		for _, v := range values {
			a.leaveLocked(v)
		}
	}
	pressed := a.used > a.max/2
	a.mu.Unlock()
	if ok {
		if pressed {
			a.relieve()
		}
		return nil
	}
	return s.holdLater(ctx, values)
}

// holdLater waits for room for all values, even for those that another answer
// holds: that answer may end meanwhile. Room that turns out not to be needed is
// given back.
func (s *Answer[V]) holdLater(ctx context.Context, values []*V) error {
	a := s.of
	absent := make([]weak.Pointer[V], len(values))
	need := int64(0)
	for i, v := range values {
		if !slices.Contains(absent[:i], weak.Make(v)) {
			need += a.size(v)
		}
		absent[i] = weak.Make(v)
		values[i] = nil
	}
	err := a.wait(ctx, nil, need)
	for i := range absent {
		values[i] = absent[i].Value()
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range values {
		if v == nil || a.joinLocked(v) { // another answer was quicker
			continue
		}
		n := a.size(v)
		a.charges[v] = charge{bytes: n, holders: 1}
		need -= n
	}
	s.keepLocked(values)
	a.giveLocked(need)
	return nil
}

func (s *Answer[V]) keepLocked(values []*V) {
	if s.held == nil {
		s.held = s.first[:0]
	}
	for _, v := range values {
		if v != nil {
			s.held = append(s.held, v)
		}
	}
	s.of.enterLocked(&s.Share)
}

// Drop gives back one value that Hold charged.
func (s *Answer[V]) Drop(v *V) {
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(s.held, v); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
		a.dropLocked(v)
	}
}

// Release gives back all bytes and values. It may be called twice.
func (s *Answer[V]) Release() {
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range s.held {
		a.dropLocked(v)
	}
	clear(s.held)
	s.held = s.held[:0]
	s.releaseLocked()
}

// heldLocked counts an equal part of each value for each of its holders.
func (s *Answer[V]) heldLocked() int64 {
	n := int64(0)
	for _, v := range s.held {
		if c, ok := s.of.charges[v]; ok {
			n += c.bytes / c.holders
		}
	}
	return n
}
