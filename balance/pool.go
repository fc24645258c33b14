package balance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoEligible says that no endpoint may be picked. Nothing was counted, and
// the caller must send nothing.
var ErrNoEligible = errors.New("no eligible endpoint")

// Endpoint is where a request goes.
type Endpoint struct{ Name, URL string }

// Pool is a set of endpoints and the policy that picks among them.
type Pool struct {
	cfg    Config
	policy policy
	log    *slog.Logger

	// set is what may be picked now. It is swapped whole, so that a pick takes
	// no lock but its policy's.
	set atomic.Pointer[set]
	// panics counts the picks that were made among unhealthy endpoints.
	panics atomic.Int64

	// mu guards the list of members, their eligibility and health, and the
	// making of set from them.
	mu      sync.Mutex
	members []*member

	probes probes
}

// New makes a pool. Its errors name the field and the value.
func New(cfg Config, log *slog.Logger) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{cfg: cfg, policy: policies[cfg.Policy](), log: log}
	for i, e := range cfg.Endpoints {
		p.members = append(p.members, &member{
			endpoint: Endpoint{Name: e.Name, URL: e.URL},
			order:    i, weight: int64(e.Weight), eligible: true,
		})
	}
	p.rebuild()
	return p, nil
}

// Name is the pool's name.
func (p *Pool) Name() string { return p.cfg.Name }

// Pick chooses an endpoint. The caller must call Done on what it gets, once at
// least, whatever becomes of the request.
func (p *Pool) Pick(ctx context.Context) (Pick, error) {
	return p.pick(ctx, "")
}

// PickOther is Pick among the endpoints that are not named so: for a second
// try elsewhere.
func (p *Pool) PickOther(ctx context.Context, than string) (Pick, error) {
	return p.pick(ctx, than)
}

func (p *Pool) pick(ctx context.Context, not string) (Pick, error) {
	for {
		s := p.pickable()
		if not != "" {
			s = s.without(not)
		}
		if len(s.members) == 0 {
			return Pick{}, ErrNoEligible
		}
		m, err := p.policy.pick(ctx, s)
		if err != nil {
			return Pick{}, fmt.Errorf("pick from pool %s: %w", p.cfg.Name, err)
		}
		epoch, trial := m.epoch.Load(), false
		if s.trials {
			var ok bool
			if epoch, trial, ok = p.claim(m); !ok {
				continue // somebody else has just begun this endpoint's trial
			}
		}
		if s.panic {
			p.panics.Add(1)
		}
		return newPick(p, m, epoch, trial), nil
	}
}

// Rotate makes and forgets n picks. Workers that start together rotate by
// different numbers, or the first endpoint gets a burst from all of them.
func (p *Pool) Rotate(ctx context.Context, n int) error {
	s := p.pickable()
	if len(s.members) == 0 {
		return nil
	}
	for range n {
		if _, err := p.policy.pick(ctx, s); err != nil {
			return fmt.Errorf("rotate pool %s: %w", p.cfg.Name, err)
		}
	}
	return nil
}

// SetEligible says whether the operator allows an endpoint, and reports
// whether the pool has it. The policy's state of an endpoint that is not
// eligible is kept as it is: it does not catch up when it returns.
func (p *Pool) SetEligible(name string, eligible bool) bool {
	p.mu.Lock()
	i := p.indexLocked(name)
	if i >= 0 {
		p.members[i].eligible = eligible
	}
	note := p.rebuildLocked(time.Now())
	p.mu.Unlock()
	note.log(p.log)
	return i >= 0
}

// Remove takes an endpoint out of the pool, and reports whether it was there.
// Requests that are under way to it end as they do.
func (p *Pool) Remove(name string) bool {
	p.mu.Lock()
	i := p.indexLocked(name)
	if i >= 0 {
		p.members[i].removed = true
		p.members = slices.Delete(p.members, i, i+1)
		p.policy.reset(p.members)
	}
	note := p.rebuildLocked(time.Now())
	p.mu.Unlock()
	note.log(p.log)
	return i >= 0
}

// Close ends the probes and waits for them.
func (p *Pool) Close() { p.probes.close() }

func (p *Pool) indexLocked(name string) int {
	return slices.IndexFunc(p.members, func(m *member) bool { return m.endpoint.Name == name })
}
