package balance

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Prober asks whether the endpoint that serves url is well. A probe is one
// request; the context bounds it.
type Prober func(ctx context.Context, url string) error

// probes owns the goroutines that probe a pool's endpoints, one for each.
type probes struct {
	// mu guards ctx, cancel, ask and closed, and is held for additions to wg.
	// The lock order is mu before the pool's lock.
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
	ask    Prober
	closed bool
	wg     sync.WaitGroup
}

// StartProbes begins to probe each endpoint every probe_interval (with a random
// tenth more or less), if the configuration has a probe path. Only the first
// call has an effect; Close ends the probes.
func (p *Pool) StartProbes(ask Prober) {
	if p.cfg.Health.Probe == "" {
		return
	}
	s := &p.probes
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.cancel != nil {
		return
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ask = ask
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		if m.barred == "" {
			s.watchLocked(p, m)
		}
	}
}

// watch begins to probe a member that was added later.
func (s *probes) watch(p *Pool, m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.cancel != nil {
		s.watchLocked(p, m)
	}
}

// watchLocked starts the one goroutine that probes m. StartProbes and watch may
// both pass the same member.
func (s *probes) watchLocked(p *Pool, m *member) {
	if m.watched {
		return
	}
	m.watched = true
	s.wg.Go(func() { p.probe(s.ctx, m, s.ask) })
}

func (p *Pool) probe(ctx context.Context, m *member, ask Prober) {
	url := m.endpoint.URL
	if u, err := ParseEndpointURL(url); err == nil { // the host as the network knows it
		url = u.String()
	}
	url = strings.TrimSuffix(url, "/") + p.cfg.Health.Probe
	interval := p.cfg.Health.ProbeInterval
	for {
		jitter := time.Duration((rand.Float64()*0.2 - 0.1) * float64(interval))
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval + jitter):
		}
		p.mu.Lock()
		removed := m.removed
		due := !p.probeFailing || m.failing && !time.Now().Before(m.until)
		p.mu.Unlock()
		if removed {
			return
		}
		if !due {
			continue
		}
		one, cancel := context.WithTimeout(ctx, interval)
		err := ask(one, url)
		cancel()
		if ctx.Err() != nil {
			return // the probe was cancelled: it says nothing
		}
		p.observeProbe(m, err == nil)
	}
}

func (s *probes) close() {
	s.mu.Lock()
	s.closed = true
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
