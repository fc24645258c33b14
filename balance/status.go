package balance

import (
	"context"
	"fmt"
	"time"
)

// PoolStatus is a pool as operators see it.
type PoolStatus struct {
	Name   string `json:"name"`
	Policy string `json:"policy"`
	State  string `json:"state"` // local or redis
	// Degraded: the shared state cannot be reached, and this process chooses
	// alone.
	Degraded bool `json:"degraded"`
	// Panic: no eligible endpoint is healthy, so all of them are picked.
	Panic  bool  `json:"panic"`
	Panics int64 `json:"panics"` // picks made in a panic
	// Outages counts how often the pool became degraded, LocalPicks the picks
	// that were made while it was.
	Outages    int64            `json:"outages"`
	LocalPicks int64            `json:"local_picks"`
	Endpoints  []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is one endpoint of a PoolStatus.
type EndpointStatus struct {
	Name          string `json:"name"`
	URL           string `json:"url"`
	Weight        int64  `json:"weight"`
	CurrentWeight int64  `json:"current_weight"`
	Eligible      bool   `json:"eligible"`
	Healthy       bool   `json:"healthy"`
	Reason        string `json:"reason"` // why it is not eligible or not healthy, and what follows
	// Assigned counts assignments, InFlight the unfinished ones. Where the
	// state is shared they count all processes. least_assigned shares only
	// Assigned, which is the count that it chooses by: an endpoint that was
	// added late starts at the others' count. Its InFlight counts this process
	// alone.
	Assigned int64 `json:"assigned"`
	InFlight int64 `json:"in_flight"`
	// Picks and Unfinished count this process alone.
	Picks      int64 `json:"-"`
	Unfinished int64 `json:"-"`
}

// Inspect is Status after a sync with the shared state, if Redis can be
// reached.
func (p *Pool) Inspect(ctx context.Context) PoolStatus {
	if p.shared != nil && !p.shared.degraded.Load() {
		p.shared.refresh(ctx)
	}
	return p.Status()
}

// Status copies out the pool's state. Shared counts are those of the last sync,
// seconds ago at most.
func (p *Pool) Status() PoolStatus {
	p.lapse()
	now := time.Now()
	var counts map[string]count
	var st PoolStatus
	if p.shared != nil {
		counts = p.shared.counted()
		st.Degraded, st.Outages, st.LocalPicks = p.shared.degraded.Load(), p.shared.outages.Load(), p.shared.locals.Load()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	st.Name, st.Policy, st.State = p.cfg.Name, p.cfg.Policy, p.cfg.State
	st.Panic, st.Panics = p.set.Load().panic, p.panics.Load()
	st.Endpoints = make([]EndpointStatus, 0, len(p.members))
	for _, m := range p.members {
		st.Endpoints = append(st.Endpoints, p.endpointLocked(m, counts, now))
	}
	return st
}

// Endpoint copies out the state of one endpoint, and reports whether the pool
// has it.
func (p *Pool) Endpoint(name string) (EndpointStatus, bool) {
	var counts map[string]count
	if p.shared != nil {
		counts = p.shared.counted()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.indexLocked(name)
	if i < 0 {
		return EndpointStatus{}, false
	}
	return p.endpointLocked(p.members[i], counts, time.Now()), true
}

func (p *Pool) endpointLocked(m *member, counts map[string]count, now time.Time) EndpointStatus {
	e := EndpointStatus{
		Name: m.endpoint.Name, URL: m.endpoint.URL, Weight: m.weight, CurrentWeight: m.current.Load(),
		Eligible: m.pickable(), Healthy: !m.failing, Reason: p.reasonLocked(m, now),
		Picks: m.assigned.Load(), Unfinished: m.inFlight.Load(),
	}
	e.Assigned, e.InFlight = e.Picks, e.Unfinished
	if c, ok := counts[e.Name]; ok {
		e.Assigned = c.assigned
		if p.shared.leases() {
			e.InFlight = c.inFlight
		}
	}
	return e
}

func (p *Pool) reasonLocked(m *member, now time.Time) string {
	switch {
	case !m.eligible:
		return "taken out by the operator"
	case m.weight == 0:
		return "weight is 0"
	case m.barred != "":
		return m.barred
	case m.candidate:
		return fmt.Sprintf("a candidate: %d of %d good probes", m.good, goodProbes)
	case !m.failing && !m.ramp.IsZero() && now.Sub(m.ramp) < p.cfg.SlowStart:
		return fmt.Sprintf("slow start: %d %% of its share", 100*now.Sub(m.ramp)/p.cfg.SlowStart)
	case !m.failing:
		return ""
	case p.set.Load().panic:
		return "failing, but picked: no endpoint is healthy"
	case m.kept:
		return fmt.Sprintf("failing, but kept: max_ejected (%.4g %%) lets no more endpoints be ejected", 100*p.cfg.MaxEjected)
	case now.Before(m.until):
		return "ejected for another " + m.until.Sub(now).Round(time.Millisecond).String()
	case p.cfg.Health.Probe != "":
		return "ejected until a probe succeeds"
	default:
		return "ejected until a trial request succeeds"
	}
}
