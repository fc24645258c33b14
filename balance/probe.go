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
	// mu guards cancel and closed; wg is added to under it.
	mu     sync.Mutex
	cancel context.CancelFunc
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
	p.mu.Lock()
	members := append([]*member(nil), p.members...)
	p.mu.Unlock()

	p.probes.mu.Lock()
	defer p.probes.mu.Unlock()
	if p.probes.closed || p.probes.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.probes.cancel = cancel
	for _, m := range members {
		p.probes.wg.Go(func() { p.probe(ctx, m, ask) })
	}
}

func (p *Pool) probe(ctx context.Context, m *member, ask Prober) {
	url := strings.TrimSuffix(m.endpoint.URL, "/") + p.cfg.Health.Probe
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
		p.mu.Unlock()
		if removed {
			return
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
