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
	// syncInterval is how often a process syncs with the shared state, with a
	// random fifth more or less. It bounds how late the process follows
	// changes, and how late it notices that Redis is back.
	syncInterval = time.Second
	// maxRenewed bounds the leases that one script renews.
	maxRenewed = 100
)

// shared is a policy whose state is in Redis, so that all processes choose as
// one. Each choice is one script: Redis runs scripts one after the other, so no
// two processes can choose on the same grounds. Redis is never needed to serve:
// when it does not answer in time, or answers with an error, the pool is
// degraded, and this process chooses by smooth weighted round robin until a
// sync succeeds.
//
// A choice of least_in_flight is a lease, because a process may die between
// choice and release. The process renews the leases of its own unfinished
// picks; a lease that is not renewed lapses.
type shared struct {
	pool   *Pool
	redis  *Redis
	ledger ledger
	leased *inFlightLedger // the same ledger, if it has leases; else nil
	local  smooth

	degraded atomic.Bool
	outages  atomic.Int64
	locals   atomic.Int64 // choices made locally

	// excluded names the endpoints that no script may choose: rejoining and
	// unknown. It is swapped whole under mu.
	excluded atomic.Pointer[[]string]

	// mu guards rejoining (members that entered the set since the last sync,
	// whose count must catch up first), unknown (endpoints in the shared set
	// that this pool does not have), counts, and keptAlive (leases of picks in
	// this process, with the time of the last renewal).
	mu        sync.Mutex
	rejoining []string
	unknown   []string
	counts    map[string]count
	keptAlive map[string]time.Time

	// changing is held from when a change of an endpoint is published, or the
	// published ones are read, until they are applied in this process. Else a
	// sync could apply an older change after a newer one.
	changing sync.Mutex

	// syncing is held during a sync. It guards followed: the published changes
	// that this process has applied, by endpoint.
	syncing  sync.Mutex
	followed map[string]string
	syncs    atomic.Uint64 // syncs so far
	synced   atomic.Bool   // a sync has succeeded since the last outage

	kick   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newShared(p *Pool, r *Redis) *shared {
	h := &shared{pool: p, redis: r, kick: make(chan struct{}, 1), keptAlive: map[string]time.Time{}, followed: map[string]string{}}
	h.excluded.Store(new([]string))
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

// watch syncs regularly, and at once when it is woken.
func (h *shared) watch() {
	for {
		h.refresh(h.ctx)
		h.renewLeases()
		interval := syncInterval
		if h.leases() {
			interval = min(interval, h.pool.cfg.Lease/4) // plus a fifth: at most a third of a lease
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
	h.degrade(err)
	return h.pickLocally(ctx, s)
}

func (h *shared) pickLocally(ctx context.Context, s *set) (choice, error) {
	h.locals.Add(1)
	return h.local.pick(ctx, s)
}

// choose asks Redis. It syncs and asks again if Redis names no endpoint (Redis
// may have lost the set) or one that this process does not know. It asks three
// times, because a sync that began before the loss looks like one after it:
//
//	watch: runs the sync script
//	       the set is lost
//	pick:  reads syncs, gets no endpoint
//	watch: counts its sync
//	pick:  takes that for a new sync, gets no endpoint again; the next sync is new
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
		if excluded := *h.excluded.Load(); len(excluded) > 0 {
			out = append(out[:len(out):len(out)], excluded...)
		}
		name, err := h.ledger.choose(ctx, token, out, weighted)
		if err != nil {
			return choice{}, fmt.Errorf("choose: %w", err)
		}
		m := s.find(name)
		if m == nil {
			m = h.pool.set.Load().find(name) // it was added while Redis was asked
		}
		if m != nil {
			h.keepAlive(token)
			return choice{m: m, token: token}, nil
		}
		if name != "" {
			h.excludeUnknown(ctx, name, token)
		}
		if err := h.syncSince(ctx, syncs); err != nil {
			return choice{}, err
		}
	}
	return choice{}, errors.New("choose: the shared set has none of this process's endpoints")
}

// excludeUnknown excludes an endpoint that this process does not know, and ends
// the lease on it.
func (h *shared) excludeUnknown(ctx context.Context, name, token string) {
	h.mu.Lock()
	h.unknown = append(h.unknown, name)
	h.updateExcludedLocked()
	h.mu.Unlock()
	if token != "" {
		// If that fails, the lease lapses. The next call reports the failure.
		_, _ = h.leased.release(ctx, token)
	}
}

func (h *shared) updateExcludedLocked() {
	excluded := slices.Concat(h.rejoining, h.unknown)
	h.excluded.Store(&excluded)
}

// degrade records that Redis failed. It logs once, until recover.
func (h *shared) degrade(err error) {
	if h.degraded.CompareAndSwap(false, true) {
		h.synced.Store(false)
		h.outages.Add(1)
		h.pool.log.Warn("pool's shared state cannot be used, choosing locally", "pool", h.pool.cfg.Name, "error", err)
	}
}

func (h *shared) recover() {
	if h.degraded.CompareAndSwap(true, false) {
		h.pool.log.Info("pool's shared state is back", "pool", h.pool.cfg.Name)
	}
}

// refresh is a sync within the time that a pick would wait.
func (h *shared) refresh(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, h.redis.patience)
	defer cancel()
	if err := h.sync(limited); err != nil {
		if ctx.Err() == nil {
			h.degrade(err)
		}
		return
	}
	h.recover()
}

// syncSince syncs unless another sync ended, or the state was lost, while this
// caller waited for its turn.
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
	rejoining := slices.Clone(h.rejoining)
	h.mu.Unlock()
	r := h.pool.memberList(rejoining)
	counts, err := h.ledger.sync(ctx, r)
	if err != nil {
		return fmt.Errorf("keep the set of endpoints: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = counts
	h.rejoining = slices.DeleteFunc(h.rejoining, func(name string) bool { return slices.Contains(rejoining, name) })
	h.unknown = nil
	for name := range counts {
		if !slices.Contains(r.names, name) {
			h.unknown = append(h.unknown, name)
		}
	}
	h.updateExcludedLocked()
	h.synced.Store(true)
	h.syncs.Add(1)
	return nil
}

// memberList is the pool's members, for a sync.
func (p *Pool) memberList(rejoining []string) memberList {
	p.mu.Lock()
	defer p.mu.Unlock()
	var r memberList
	for i, m := range p.members {
		name := m.endpoint.Name
		switch {
		case !m.eligible || m.weight == 0:
			r.ineligible = append(r.ineligible, name)
		case m.pickable():
			r.names = append(r.names, name)
			r.steps = append(r.steps, p.steps[i])
			if slices.Contains(rejoining, name) {
				r.catchUp = append(r.catchUp, name)
			} else if !m.seated {
				r.absent = append(r.absent, name)
			}
		}
	}
	for name := range p.departed {
		r.ineligible = append(r.ineligible, name)
	}
	return r
}

// enter excludes members that come back until the next sync has raised their
// count to the others'. It wakes the sync.
func (h *shared) enter(entering []*member, _ *set) {
	h.mu.Lock()
	for _, m := range entering {
		if !slices.Contains(h.rejoining, m.endpoint.Name) {
			h.rejoining = append(h.rejoining, m.endpoint.Name)
		}
	}
	h.updateExcludedLocked()
	h.mu.Unlock()
	h.wake()
}

func (h *shared) wake() {
	select {
	case h.kick <- struct{}{}:
	default: // a wake-up is already pending
	}
}

func (h *shared) reset(members []*member, generation uint64) {
	h.local.reset(members, generation)
	h.wake()
}

// counted is the counts of the last sync; nil while the pool is degraded.
func (h *shared) counted() map[string]count {
	if h.degraded.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// keepAlive has a lease renewed until forget.
func (h *shared) keepAlive(token string) {
	if token == "" {
		return
	}
	h.mu.Lock()
	h.keptAlive[token] = time.Now()
	h.mu.Unlock()
}

// forget ends keepAlive.
func (h *shared) forget(token string) {
	h.mu.Lock()
	delete(h.keptAlive, token)
	h.mu.Unlock()
}

// release ends a choice's lease. If Redis cannot be reached the lease lapses
// instead: the caller has its answer and must not wait longer.
func (h *shared) release(c choice) {
	if c.token == "" {
		return
	}
	h.forget(c.token)
	if h.degraded.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), h.redis.patience)
	defer cancel()
	if _, err := h.leased.release(ctx, c.token); err != nil && h.ctx.Err() == nil {
		h.degrade(fmt.Errorf("release a lease: %w", err))
	}
}

// complete ends a lease that any process may have made.
func (h *shared) complete(ctx context.Context, token string) (name string, err error) {
	err = h.try(ctx, func(ctx context.Context) error {
		name, err = h.leased.release(ctx, token)
		return err
	})
	return name, err
}

// renew renews one lease.
func (h *shared) renew(ctx context.Context, token string) error {
	return h.try(ctx, func(ctx context.Context) error {
		alive, err := h.leased.renew(ctx, []string{token})
		if err == nil && !alive[0] {
			return ErrUnknownAssignment
		}
		return err
	})
}

// try makes a call that a caller waits for and that this process cannot replace
// by a local choice.
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
	h.degrade(err)
	return fmt.Errorf("%w: %w", ErrUnshared, err)
}

// renewLeases renews the leases of this process's own picks once a quarter of
// their time is over.
func (h *shared) renewLeases() {
	if !h.leases() || h.degraded.Load() {
		return
	}
	now := time.Now()
	var due []string
	h.mu.Lock()
	for token, last := range h.keptAlive {
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
				h.degrade(fmt.Errorf("renew leases: %w", err))
			}
			return
		}
		h.mu.Lock()
		for _, token := range some {
			if _, ok := h.keptAlive[token]; ok {
				h.keptAlive[token] = now
			}
		}
		h.mu.Unlock()
	}
}
