package balance

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Prober asks whether the endpoint that serves url is well. A probe is one
// request, which the context ends.
type Prober func(ctx context.Context, url string) error

// probes owns the goroutines that probe a pool's endpoints, one for each.
type probes struct {
	// mu guards ctx, cancel, ask and closed; wg is added to under it. It is
	// taken before the pool's.
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
	ask    Prober
	closed bool
	wg     sync.WaitGroup
}

// StartProbes begins to probe the endpoints, each every probe_interval (with a
// random tenth on or off), if the configuration has a path to ask for. It does
// so once; Close ends it.
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

// watch begins to probe a member that came later.
func (s *probes) watch(p *Pool, m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.cancel != nil {
		s.watchLocked(p, m)
	}
}

// watchLocked starts the one goroutine that probes m; a member is handed to
// StartProbes and to watch, perhaps, but is watched once.
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
			return // the probe was cut off: it says nothing
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
