package balance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrUnshared says that the shared state of a pool cannot be reached.
var ErrUnshared = errors.New("the pool's shared state cannot be reached")

const (
	// syncInterval is how often a process looks at the shared state, with a
	// random fifth on or off: how late it follows the others' changes, and
	// finds Redis well again.
	syncInterval = time.Second
	// maxRenewed bounds the leases that one script renews.
	maxRenewed = 100
)

// shared is a policy whose state is in Redis. Each choice is one script, so
// that no two processes can choose on the same grounds. While Redis does not
// answer in time, or answers with an error, choices are made in this process
// by smooth weighted round robin.
type shared struct {
	pool   *Pool
	redis  *Redis
	ledger ledger
	leased *inFlightLedger // the ledger, if it has leases
	local  smooth

	degraded atomic.Bool
	outages  atomic.Int64
	locals   atomic.Int64 // choices made locally

	// shy names what no script may choose: members that came back and whose
	// count is yet to be raised, and endpoints of which this process knows
	// nothing. It is swapped whole under mu.
	shy atomic.Pointer[[]string]

	// mu guards coming (members that entered the set since the last sync),
	// strangers (in the shared set, but not in this pool), counts, and held
	// (leases of picks in this process, with the time of the last renewal).
	mu        sync.Mutex
	coming    []string
	strangers []string
	counts    map[string]count
	held      map[string]time.Time

	// syncing is held while the state is looked at: once at a time. It guards
	// followed: the changes of endpoints that were made here, as published.
	syncing  sync.Mutex
	followed map[string]string
	syncs    atomic.Uint64 // how often it was
	synced   atomic.Bool   // once at least since the state was last lost

	kick   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newShared(p *Pool, r *Redis) *shared {
	h := &shared{pool: p, redis: r, kick: make(chan struct{}, 1), held: map[string]time.Time{}, followed: map[string]string{}}
	h.shy.Store(new([]string))
	if p.cfg.Policy == "least_in_flight" {
		h.leased = newInFlightLedger(r, p.cfg.Name, p.cfg.Lease, p.cfg.KeepCount)
		h.ledger = h.leased
	} else {
		h.ledger = newAssignedLedger(r, p.cfg.Name, p.cfg.KeepCount)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// leases reports whether choices are leases in Redis.
func (h *shared) leases() bool { return h.leased != nil }

func (h *shared) start() { h.done.Go(h.watch) }

func (h *shared) close() {
	h.cancel()
	h.done.Wait()
}

// watch looks at the shared state regularly, and when it is told to.
func (h *shared) watch() {
	for {
		h.refresh(h.ctx)
		h.renewHeld()
		interval := syncInterval
		if h.leases() {
			interval = min(interval, h.pool.cfg.Lease/4) // with a fifth more, a third of a lease at most
		}
		jitter := time.Duration((randv2.Float64()*0.4 - 0.2) * float64(interval))
		select {
		case <-h.ctx.Done():
			return
		case <-h.kick:
		case <-time.After(interval + jitter):
		}
	}
}

func (h *shared) pick(ctx context.Context, s *set) (choice, error) {
	if h.degraded.Load() {
		return h.pickLocally(ctx, s)
	}
	limited, cancel := context.WithTimeout(ctx, h.redis.patience)
	defer cancel()
	c, err := h.choose(limited, s)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return choice{}, ctx.Err() // the caller's time is over, not Redis's
	}
	h.lost(err)
	return h.pickLocally(ctx, s)
}

func (h *shared) pickLocally(ctx context.Context, s *set) (choice, error) {
	h.locals.Add(1)
	return h.local.pick(ctx, s)
}

// choose asks Redis: again if it named nobody (it may have lost the set) or
// somebody whom this process does not know. Three times, for the first look at
// the state may be one that had begun before the set was lost:
//
//	watch: runs the sync script
//	       the set is lost
//	pick:  reads syncs, is given nobody
//	watch: counts its sync
//	pick:  takes that for a look since, is given nobody again; the next is one
func (h *shared) choose(ctx context.Context, s *set) (choice, error) {
	syncs := h.syncs.Load()
	if !h.synced.Load() {
		if err := h.syncSince(ctx, syncs); err != nil {
			return choice{}, err
		}
	}
	weighted := slices.ContainsFunc(s.seats, func(t seat) bool { return t.step != 1 })
	for range 3 {
		syncs = h.syncs.Load()
		token := ""
		if h.leases() {
			token = rand.Text()
		}
		out := s.absent
		if shy := *h.shy.Load(); len(shy) > 0 {
			out = append(out[:len(out):len(out)], shy...)
		}
		name, err := h.ledger.choose(ctx, token, out, weighted)
		if err != nil {
			return choice{}, fmt.Errorf("choose: %w", err)
		}
		m := s.find(name)
		if m == nil {
			m = h.pool.set.Load().find(name) // it came while Redis was asked
		}
		if m != nil {
			h.hold(token)
			return choice{m: m, token: token}, nil
		}
		if name != "" {
			h.disown(ctx, name, token)
		}
		if err := h.syncSince(ctx, syncs); err != nil {
			return choice{}, err
		}
	}
	return choice{}, errors.New("choose: the shared set has none of this process's endpoints")
}

// disown keeps a name from being chosen of which this process knows nothing,
// and ends the lease on it.
func (h *shared) disown(ctx context.Context, name, token string) {
	h.mu.Lock()
	h.strangers = append(h.strangers, name)
	h.noteShyLocked()
	h.mu.Unlock()
	if token != "" {
		// If that fails, the lease lapses; what is wrong shows in the next call.
		_, _ = h.leased.release(ctx, token)
	}
}

func (h *shared) noteShyLocked() {
	shy := slices.Concat(h.coming, h.strangers)
	h.shy.Store(&shy)
}

// lost notes that Redis failed: once, until it is well again.
func (h *shared) lost(err error) {
	if h.degraded.CompareAndSwap(false, true) {
		h.synced.Store(false)
		h.outages.Add(1)
		h.pool.log.Warn("pool's shared state cannot be used, choosing locally", "pool", h.pool.cfg.Name, "error", err)
	}
}

func (h *shared) found() {
	if h.degraded.CompareAndSwap(true, false) {
		h.pool.log.Info("pool's shared state is back", "pool", h.pool.cfg.Name)
	}
}

// refresh is sync within the time that a pick would wait.
func (h *shared) refresh(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, h.redis.patience)
	defer cancel()
	if err := h.sync(limited); err != nil {
		if ctx.Err() == nil {
			h.lost(err)
		}
		return
	}
	h.found()
}

// syncSince is sync unless the state was looked at, or lost, while this caller
// waited for its turn.
func (h *shared) syncSince(ctx context.Context, syncs uint64) error {
	h.syncing.Lock()
	defer h.syncing.Unlock()
	switch {
	case h.degraded.Load():
		return ErrUnshared
	case h.syncs.Load() != syncs:
		return nil
	}
	return h.syncLocked(ctx)
}

func (h *shared) sync(ctx context.Context) error {
	h.syncing.Lock()
	defer h.syncing.Unlock()
	return h.syncLocked(ctx)
}

func (h *shared) syncLocked(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := h.follow(ctx); err != nil {
		return fmt.Errorf("look at the endpoints: %w", err)
	}
	h.mu.Lock()
	coming := slices.Clone(h.coming)
	h.mu.Unlock()
	r := h.pool.roster(coming)
	counts, err := h.ledger.sync(ctx, r)
	if err != nil {
		return fmt.Errorf("keep the set of endpoints: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = counts
	h.coming = slices.DeleteFunc(h.coming, func(name string) bool { return slices.Contains(coming, name) })
	h.strangers = nil
	for name := range counts {
		if !slices.Contains(r.names, name) {
			h.strangers = append(h.strangers, name)
		}
	}
	h.noteShyLocked()
	h.synced.Store(true)
	h.syncs.Add(1)
	return nil
}

// roster is what the pool has, for those that share its state.
func (p *Pool) roster(coming []string) roster {
	p.mu.Lock()
	defer p.mu.Unlock()
	var r roster
	for i, m := range p.members {
		name := m.endpoint.Name
		switch {
		case !m.eligible || m.weight == 0:
			r.gone = append(r.gone, name)
		case m.pickable():
			r.names = append(r.names, name)
			r.steps = append(r.steps, p.steps[i])
			if slices.Contains(coming, name) {
				r.raise = append(r.raise, name)
			} else if !m.seated {
				r.out = append(r.out, name)
			}
		}
	}
	for name := range p.departed {
		r.gone = append(r.gone, name)
	}
	return r
}

// enter keeps those that come back from being chosen until the others' count
// is theirs, which the next sync sees to, at once.
func (h *shared) enter(entering []*member, _ *set) {
	h.mu.Lock()
	for _, m := range entering {
		if !slices.Contains(h.coming, m.endpoint.Name) {
			h.coming = append(h.coming, m.endpoint.Name)
		}
	}
	h.noteShyLocked()
	h.mu.Unlock()
	h.wake()
}

func (h *shared) wake() {
	select {
	case h.kick <- struct{}{}:
	default: // it is awake
	}
}

func (h *shared) reset(members []*member, generation uint64) {
	h.local.reset(members, generation)
	h.wake()
}

// counted is what was counted when the state was last looked at; nil while it
// cannot be.
func (h *shared) counted() map[string]count {
	if h.degraded.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// hold has a lease renewed until it is released.
func (h *shared) hold(token string) {
	if token == "" {
		return
	}
	h.mu.Lock()
	h.held[token] = time.Now()
	h.mu.Unlock()
}

// letGo ends hold.
func (h *shared) letGo(token string) {
	h.mu.Lock()
	delete(h.held, token)
	h.mu.Unlock()
}

// release ends a choice's lease. If Redis cannot be reached the lease lapses:
// the caller has its answer, and is not to wait for more.
func (h *shared) release(c choice) {
	if c.token == "" {
		return
	}
	h.letGo(c.token)
	if h.degraded.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), h.redis.patience)
	defer cancel()
	if _, err := h.leased.release(ctx, c.token); err != nil && h.ctx.Err() == nil {
		h.lost(fmt.Errorf("release a lease: %w", err))
	}
}

// complete ends a lease that another process may have made.
func (h *shared) complete(ctx context.Context, token string) (name string, err error) {
	err = h.try(ctx, func(ctx context.Context) error {
		name, err = h.leased.release(ctx, token)
		return err
	})
	return name, err
}

// renew lets one lease last longer.
func (h *shared) renew(ctx context.Context, token string) error {
	return h.try(ctx, func(ctx context.Context) error {
		alive, err := h.leased.renew(ctx, []string{token})
		if err == nil && !alive[0] {
			return ErrUnknownAssignment
		}
		return err
	})
}

// try makes a call that somebody waits for and that can not be made up for
// locally.
func (h *shared) try(ctx context.Context, f func(ctx context.Context) error) error {
	if h.degraded.Load() {
		return ErrUnshared
	}
	limited, cancel := context.WithTimeout(ctx, h.redis.patience)
	defer cancel()
	err := f(limited)
	switch {
	case err == nil, errors.Is(err, ErrUnknownAssignment):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	h.lost(err)
	return fmt.Errorf("%w: %w", ErrUnshared, err)
}

// renewHeld renews the leases of this process's own picks when a third of
// their time is over.
func (h *shared) renewHeld() {
	if !h.leases() || h.degraded.Load() {
		return
	}
	now := time.Now()
	var due []string
	h.mu.Lock()
	for token, last := range h.held {
		if now.Sub(last) >= h.pool.cfg.Lease/4 {
			due = append(due, token)
		}
	}
	h.mu.Unlock()
	for some := range slices.Chunk(due, maxRenewed) {
		ctx, cancel := context.WithTimeout(h.ctx, h.redis.patience)
		_, err := h.leased.renew(ctx, some)
		cancel()
		if err != nil {
			if h.ctx.Err() == nil {
				h.lost(fmt.Errorf("renew leases: %w", err))
			}
			return
		}
		h.mu.Lock()
		for _, token := range some {
			if _, ok := h.held[token]; ok {
				h.held[token] = now
			}
		}
		h.mu.Unlock()
	}
}
