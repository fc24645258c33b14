package balance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoEligible says that the pool has no endpoint that may be picked. Nothing
// was counted, and the caller must send nothing.
var ErrNoEligible = errors.New("no eligible endpoint")

// Endpoint is where a request goes.
type Endpoint struct{ Name, URL string }

// Options are what a pool takes from its surroundings.
type Options struct {
	// Redis holds the state of pools that share it; nil: no pool shares.
	Redis *Redis
	// AllowedHosts are the hosts of endpoints that may be added at run time:
	// "host" (any port), "host:port", "*.domain", each also as "https://host".
	// The hosts of configured endpoints are allowed as well.
	AllowedHosts []string
	// ProbeFailing probes only endpoints that are failing, and only when their
	// ejection is over. Default: all endpoints are probed.
	ProbeFailing bool
	Log          *slog.Logger // nil: discarded
}

// Pool is a set of endpoints and the policy that picks among them.
type Pool struct {
	cfg      Config
	policy   policy
	releases bool // the policy must be told when a choice ends
	log      *slog.Logger
	allowed  []string
	// probeFailing is Options.ProbeFailing.
	probeFailing bool

	// set holds what may be picked now. It is swapped whole, so that a pick
	// takes only the policy's lock.
	set atomic.Pointer[set]
	// panics counts the picks that were made in a panic.
	panics atomic.Int64

	// mu guards the members, their eligibility and health, the tallies of
	// removed endpoints, and the making of set.
	mu         sync.Mutex
	members    []*member
	steps      []int64 // of the members, in the same order
	ranks      []int   // likewise
	nextOrder  int
	generation uint64
	departed   map[string]departed

	probes      probes
	assignments assignments
	shared      *shared // nil: the state is in this process
}

// New makes a pool whose state is in this process. Its errors name the field
// and the value.
func New(cfg Config, log *slog.Logger) (*Pool, error) {
	return Open(cfg, Options{Log: log})
}

// Open makes a pool. Its errors name the field and the value. A pool with
// shared state is usable at once, even when Redis cannot be reached.
func Open(cfg Config, o Options) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.State == stateRedis && o.Redis == nil {
		return nil, fmt.Errorf("pools[%s].state: redis: no Redis is configured", cfg.Name)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{cfg: cfg, log: o.Log, allowed: o.AllowedHosts, probeFailing: o.ProbeFailing, departed: map[string]departed{}}
	p.assignments.start = time.Now()
	for _, e := range cfg.Endpoints {
		p.members = append(p.members, &member{
			endpoint: Endpoint{Name: e.Name, URL: e.URL},
			order:    p.nextOrder, weight: int64(e.Weight), eligible: true, tally: new(tally),
		})
		p.nextOrder++
	}
	if cfg.State == stateRedis {
		p.shared = newShared(p, o.Redis)
		p.policy = p.shared
	} else {
		p.policy = policies[cfg.Policy]()
	}
	p.releases = cfg.Policy == "least_in_flight"
	p.mu.Lock()
	p.changedLocked(time.Now())
	p.mu.Unlock()
	if p.shared != nil {
		p.shared.start()
	}
	return p, nil
}

// Name is the pool's name.
func (p *Pool) Name() string { return p.cfg.Name }

// Pick chooses an endpoint. The caller must call Done on the pick at least
// once, however the request ends.
func (p *Pool) Pick(ctx context.Context) (Pick, error) {
	return p.pick(ctx, "")
}

// PickOther is Pick without the endpoint of that name, for a second try.
func (p *Pool) PickOther(ctx context.Context, than string) (Pick, error) {
	return p.pick(ctx, than)
}

func (p *Pool) pick(ctx context.Context, not string) (Pick, error) {
	if p.assignments.next.Load() != 0 {
		p.lapse()
	}
	heldBack := ""
	for {
		s := p.pickable()
		if not != "" || heldBack != "" {
			s = s.without(not, heldBack)
		}
		if len(s.seats) == 0 && heldBack != "" {
			heldBack = "" // the other members have left meanwhile
			continue
		}
		if len(s.seats) == 0 {
			return Pick{}, ErrNoEligible
		}
		c, err := p.policy.pick(ctx, s)
		if err != nil {
			if errors.Is(err, errOutdated) {
				continue // members or weights have just changed
			}
			return Pick{}, fmt.Errorf("pick from pool %s: %w", p.cfg.Name, err)
		}
		if s.ramps && heldBack == "" && len(s.seats) > 1 && p.holdsBack(c.m) {
			// The turn is spent under every policy: the member does not catch
			// up.
			p.policy.release(c)
			heldBack = c.m.endpoint.Name
			continue
		}
		generation, trial := c.m.generation.Load(), false
		if s.trials {
			var ok bool
			if generation, trial, ok = p.claim(c.m); !ok {
				p.policy.release(c)
				continue // another pick has just taken this endpoint's trial
			}
		}
		if s.panic {
			p.panics.Add(1)
		}
		return newPick(p, c, generation, trial), nil
	}
}

// holdsBack reports whether slow start keeps m from taking this turn. The
// chance of that falls in the course of slow_start.
func (p *Pool) holdsBack(m *member) bool {
	p.mu.Lock()
	ramp := m.ramp
	p.mu.Unlock()
	if ramp.IsZero() {
		return false
	}
	return rand.Float64() >= float64(time.Since(ramp))/float64(p.cfg.SlowStart)
}

// Rotate makes n picks and drops them, for a policy that takes turns. Workers
// that start together rotate by different numbers; else the first endpoint
// would get a burst from all of them.
func (p *Pool) Rotate(ctx context.Context, n int) error {
	s := p.pickable()
	if len(s.seats) == 0 {
		return nil
	}
	turning := p.policy
	switch t := turning.(type) {
	case *shared:
		turning = &t.local
	case *leastAssigned:
		return nil // the counts already spread the first picks
	}
	for range n {
		c, err := turning.pick(ctx, s)
		if errors.Is(err, errOutdated) {
			return nil // a change of the members has just reset all turns
		}
		if err != nil {
			return fmt.Errorf("rotate pool %s: %w", p.cfg.Name, err)
		}
		turning.release(c)
	}
	return nil
}

// Close ends the probes and the sharing of state, and waits for their
// goroutines.
func (p *Pool) Close() {
	p.probes.close()
	if p.shared != nil {
		p.shared.close()
	}
}
