package httpapi

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"kring/cache"
)

const (
	// lookEvery is how often a budget under pressure looks at its clients.
	lookEvery = 250 * time.Millisecond
	// littlePart is the part of a budget that a request may take past those that
	// wait, one in so many: 256 KiB of 64 MiB.
	littlePart = 256
	// patience is how long a request waits for room before it is refused.
	patience = 3 * time.Second
)

// budget bounds the bytes that requests have in memory for one purpose. A
// request that finds no room waits for a moment, first come, first served, but
// for those that need little.
// Meanwhile the clients that have done nothing for longest, although the node
// waits for them, are turned away. A request that is larger than the whole
// budget gets its room when nothing else is held.
type budget struct {
	max int64
	// reserve is what is left of it to requests that need little.
	reserve int64
	// why is the detail of a refusal.
	why string
	// quiet is how long a client has kept its request waiting; 0: it does not.
	// turnAway ends such a request. A client is turned away after quietAfter.
	quiet      func(c *connection, now time.Time) time.Duration
	quietAfter time.Duration
	turnAway   func(*connection)

	refused    atomic.Uint64 // requests that found no room
	turnedAway atomic.Uint64 // clients that made room

	// mu guards the rest, and the fields of the shares.
	mu      sync.Mutex
	used    int64
	shares  map[*share]struct{}
	entries map[*cache.Entry]charge
	queue   list.List // of *waiter

	moving sync.Mutex // see body.move

	// looking is held by the one request that looks at the clients, and guards
	// looked.
	looking sync.Mutex
	looked  time.Time
}

// share is what one request holds of a budget.
type share struct {
	budget *budget
	conn   *connection // nil: there is nobody to turn away
	flat   int64       // bytes besides the entries
	held   []*cache.Entry
	first  [1]*cache.Entry // where held begins: most answers have one
	ended  bool            // its client was turned away
}

// charge is what an entry takes, once for all that hold it.
type charge struct {
	bytes int64
	refs  int64
}

// waiter is a request for room.
type waiter struct {
	share   *share // nil: whoever waits takes the bytes over
	bytes   int64
	granted chan struct{}
}

func (b *budget) share(conn *connection) *share { return &share{budget: b, conn: conn} }

// joinLocked charges an entry to one more, if it is charged already.
func (b *budget) joinLocked(e *cache.Entry) bool {
	c, ok := b.entries[e]
	if ok {
		c.refs++
		b.entries[e] = c
	}
	return ok
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *budget) fitsLocked(n int64) bool {
	most := b.max
	if n > b.max/littlePart {
		most -= b.reserve
	}
	return b.used+n <= most || b.used == 0
}

// takeLocked takes n bytes if there is room and nobody waits for it; for little of
// it nobody needs to wait behind those that want much. A nil s leaves it to the
// caller where they belong.
func (b *budget) takeLocked(s *share, n int64) bool {
	if b.queue.Len() > 0 && n > b.max/littlePart || !b.fitsLocked(n) {
		return false
	}
	b.grantLocked(s, n)
	return true
}

func (b *budget) grantLocked(s *share, n int64) {
	b.used += n
	if s == nil {
		return
	}
	s.flat += n
	if s.conn != nil {
		b.shares[s] = struct{}{}
	}
}

// giveLocked gives back n bytes, and lets in those that wait for them.
func (b *budget) giveLocked(n int64) {
	b.used -= n
	b.admitLocked()
}

func (b *budget) admitLocked() {
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

// wait is for a request that found no room. It must not hold mu.
func (b *budget) wait(ctx context.Context, s *share, n int64) error {
	w := &waiter{share: s, bytes: n, granted: make(chan struct{})}
	b.mu.Lock()
	at := b.queue.PushBack(w)
	b.admitLocked() // room may have come meanwhile
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
	b.admitLocked() // those behind it may need less
	if err := ctx.Err(); err != nil {
		return err
	}
	b.refused.Add(1)
	return cache.ErrOverloaded.With(b.why)
}

// take makes room for n more bytes of s, or says why there is none.
func (s *share) take(ctx context.Context, n int64) error {
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

// give gives back n of the bytes that take took.
func (s *share) give(n int64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.flat -= n
	s.budget.giveLocked(n)
}

// hold charges entries to the budget, each once however many hold it. If it
// has to wait, it does not keep the values in memory: an entry that has left
// the cache meanwhile is nil afterwards. The caller must have no other
// reference to them. If there is an error, nothing is held.
func (s *share) hold(ctx context.Context, entries []*cache.Entry) error {
	b := s.budget
	b.mu.Lock()
	need := int64(0)
	for _, e := range entries {
		if !b.joinLocked(e) {
			n := int64(len(e.Value))
			b.entries[e] = charge{bytes: n, refs: 1}
			need += n
		}
	}
	ok := need == 0 || b.takeLocked(nil, need)
	if ok {
		s.keepLocked(entries)
	} else {
		for _, e := range entries {
			b.leaveLocked(e)
		}
	}
	pressed := b.used > b.max/2
	b.mu.Unlock()
	if ok {
		if pressed {
			b.relieve()
		}
		return nil
	}
	return s.holdLater(ctx, entries)
}

// holdLater waits for room for all entries: those that another request holds may
// be let go of meanwhile. What turns out not to be needed is given back.
func (s *share) holdLater(ctx context.Context, entries []*cache.Entry) error {
	b := s.budget
	absent := make([]weak.Pointer[cache.Entry], len(entries))
	need := int64(0)
	for i, e := range entries {
		if !slices.Contains(absent[:i], weak.Make(e)) {
			need += int64(len(e.Value))
		}
		absent[i] = weak.Make(e)
		entries[i] = nil
	}
	err := b.wait(ctx, nil, need)
	for i := range absent {
		entries[i] = absent[i].Value()
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries {
		if e == nil || b.joinLocked(e) { // another request was quicker
			continue
		}
		n := int64(len(e.Value))
		b.entries[e] = charge{bytes: n, refs: 1}
		need -= n
	}
	s.keepLocked(entries)
	b.giveLocked(need)
	return nil
}

func (s *share) keepLocked(entries []*cache.Entry) {
	if s.held == nil {
		s.held = s.first[:0]
	}
	for _, e := range entries {
		if e != nil {
			s.held = append(s.held, e)
		}
	}
	if s.conn != nil {
		s.budget.shares[s] = struct{}{}
	}
}

// drop lets go of one entry that hold charged.
func (s *share) drop(e *cache.Entry) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(s.held, e); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
		b.dropLocked(e)
	}
}

func (b *budget) dropLocked(e *cache.Entry) {
	if n := b.leaveLocked(e); n > 0 {
		b.giveLocked(n)
	}
}

// leaveLocked takes one back that an entry is charged to. It returns the bytes
// that nobody is charged for any more.
func (b *budget) leaveLocked(e *cache.Entry) int64 {
	c, ok := b.entries[e]
	switch {
	case !ok:
	case c.refs > 1:
		c.refs--
		b.entries[e] = c
	default:
		delete(b.entries, e)
		return c.bytes
	}
	return 0
}

// release gives back all that s has. It may be called twice.
func (s *share) release() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.shares, s)
	for _, e := range s.held {
		b.dropLocked(e)
	}
	n := s.flat
	clear(s.held)
	s.held, s.flat = s.held[:0], 0
	b.giveLocked(n)
}

// weightLocked is about what the end of s would free. Those that share an entry
// have an equal part of it.
func (s *share) weightLocked() int64 {
	n := s.flat
	for _, e := range s.held {
		if c, ok := s.budget.entries[e]; ok {
			n += c.bytes / c.refs
		}
	}
	return n
}

// relieve looks how long clients have been quiet, and turns away as many as it
// takes to let in those that wait, beginning with the longest.
func (b *budget) relieve() {
	if !b.looking.TryLock() {
		return
	}
	defer b.looking.Unlock()
	now := time.Now()
	if now.Sub(b.looked) < lookEvery {
		return
	}
	b.looked = now

	type candidate struct {
		share *share
		quiet time.Duration
	}
	var candidates []candidate
	b.mu.Lock()
	need := b.used + b.reserve - b.max
	for at := b.queue.Front(); at != nil; at = at.Next() {
		need += min(at.Value.(*waiter).bytes, b.max)
	}
	for s := range b.shares {
		if s.ended {
			need -= s.weightLocked() // on its way out
			continue
		}
		candidates = append(candidates, candidate{share: s})
	}
	b.mu.Unlock()
	for i := range candidates {
		candidates[i].quiet = b.quiet(candidates[i].share.conn, now)
	}
	slices.SortFunc(candidates, func(x, y candidate) int { return cmp.Compare(y.quiet, x.quiet) })
	for _, c := range candidates {
		if need <= 0 || c.quiet < b.quietAfter {
			return
		}
		b.mu.Lock()
		_, there := b.shares[c.share]
		if there {
			c.share.ended = true
			need -= c.share.weightLocked()
		}
		b.mu.Unlock()
		if there {
			b.turnedAway.Add(1)
			b.turnAway(c.share.conn)
		}
	}
}
