package balance

import "time"

// PoolStatus is a pool as operators see it.
type PoolStatus struct {
	Name   string `json:"name"`
	Policy string `json:"policy"`
	State  string `json:"state"` // local or redis
	// Degraded: the shared state cannot be reached, and this process chooses alone.
	Degraded bool `json:"degraded"`
	// Panic: so many endpoints are unhealthy that all eligible ones are picked.
	Panic     bool             `json:"panic"`
	Panics    int64            `json:"panics"` // picks made so
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is one endpoint of a PoolStatus.
type EndpointStatus struct {
	Name          string `json:"name"`
	URL           string `json:"url"`
	Weight        int64  `json:"weight"`
	CurrentWeight int64  `json:"current_weight"`
	Eligible      bool   `json:"eligible"`
	Healthy       bool   `json:"healthy"`
	Reason        string `json:"reason"` // why not eligible or not healthy
	Assigned      int64  `json:"assigned"`
	InFlight      int64  `json:"in_flight"`
}

// Status copies out the pool's state.
func (p *Pool) Status() PoolStatus {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	st := PoolStatus{
		Name: p.cfg.Name, Policy: p.cfg.Policy, State: p.cfg.State,
		Panic: p.set.Load().panic, Panics: p.panics.Load(),
		Endpoints: make([]EndpointStatus, 0, len(p.members)),
	}
	for _, m := range p.members {
		st.Endpoints = append(st.Endpoints, EndpointStatus{
			Name: m.endpoint.Name, URL: m.endpoint.URL, Weight: m.weight, CurrentWeight: m.current.Load(),
			Eligible: m.pickable(), Healthy: !m.ejected, Reason: p.reasonLocked(m, now),
			Assigned: m.assigned.Load(), InFlight: m.inFlight.Load(),
		})
	}
	return st
}

func (p *Pool) reasonLocked(m *member, now time.Time) string {
	switch {
	case !m.eligible:
		return "taken out by the operator"
	case m.weight == 0:
		return "weight is 0"
	case !m.ejected:
		return ""
	case now.Before(m.until):
		return "ejected for another " + m.until.Sub(now).Round(time.Millisecond).String()
	case p.cfg.Health.Probe != "":
		return "ejected until a probe succeeds"
	default:
		return "ejected until a trial request succeeds"
	}
}
