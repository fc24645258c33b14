package balance

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// nameRE matches names that may stand in URLs and in metric labels.
var nameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// The values of Config.State.
const (
	stateLocal = "local"
	stateRedis = "redis"
)

// minLease leaves room for three renewals, each within Redis's time-out.
const minLease = 500 * time.Millisecond

const (
	// minProbeInterval and minFailTimeout keep probes and trials from loading
	// the endpoint by themselves.
	minProbeInterval = 100 * time.Millisecond
	minFailTimeout   = 100 * time.Millisecond
)

// MaxEndpoints bounds a pool's endpoints, configured and added: a pick looks at
// each of them.
const MaxEndpoints = 1000

// Validate checks a pool's settings. The error names field and value.
func (c *Config) Validate() error {
	if !nameRE.MatchString(c.Name) {
		return fmt.Errorf("pools: name: %q: must be letters, digits, '.', '_' or '-', at most 63", c.Name)
	}
	bad := func(field string, value any, why string) error {
		return fmt.Errorf("pools[%s].%s: %v: %s", c.Name, field, value, why)
	}
	h := c.Health
	switch {
	case policies[c.Policy] == nil:
		return bad("policy", fmt.Sprintf("%q", c.Policy), "unknown, choose one of "+policyNames())
	case c.State != stateLocal && c.State != stateRedis:
		return bad("state", fmt.Sprintf("%q", c.State), "must be local or redis")
	case c.State == stateRedis && !slices.Contains(shareable, c.Policy):
		return bad("state", c.State, "the policy "+c.Policy+" has only local state; "+strings.Join(shareable, " and ")+" can be shared")
	case !(c.MaxEjected >= 0 && c.MaxEjected <= 1):
		return bad("max_ejected", c.MaxEjected, "must be a share from 0 to 1")
	case c.SlowStart < 0:
		return bad("slow_start", c.SlowStart, "must not be negative")
	case c.Lease < minLease:
		return bad("lease", c.Lease, "must be at least "+minLease.String())
	case c.KeepCount < 0:
		return bad("keep_count", c.KeepCount, "must not be negative")
	case h.MaxFails < 0:
		return bad("health.max_fails", h.MaxFails, "must not be negative")
	case h.MaxFails > 0 && (h.FailTimeout < minFailTimeout || h.FailTimeout > 24*time.Hour):
		return bad("health.fail_timeout", h.FailTimeout, "must be "+minFailTimeout.String()+" to 24h")
	case h.Probe != "" && !strings.HasPrefix(h.Probe, "/"):
		return bad("health.probe", fmt.Sprintf("%q", h.Probe), "must begin with /")
	case h.ProbeInterval < minProbeInterval || h.ProbeInterval > 24*time.Hour:
		return bad("health.probe_interval", h.ProbeInterval, "must be "+minProbeInterval.String()+" to 24h")
	}
	for i, status := range h.FailStatuses {
		switch {
		case status < 400 || status > 599:
			return bad("health.fail_statuses", status, "must be a status from 400 to 599")
		case slices.Contains(h.FailStatuses[:i], status):
			return bad("health.fail_statuses", status, "is there twice")
		}
	}
	if h.Probe != "" {
		if i := strings.IndexFunc(h.Probe, notOfTarget); i >= 0 {
			return bad("health.probe", fmt.Sprintf("%q", h.Probe), fmt.Sprintf("%q must be percent-encoded", h.Probe[i:i+1]))
		}
		if _, err := url.ParseRequestURI(h.Probe); err != nil {
			return bad("health.probe", fmt.Sprintf("%q", h.Probe), "is not a path")
		}
	}
	if n := len(c.Endpoints); n > MaxEndpoints {
		return bad("endpoints", n, fmt.Sprintf("a pool has at most %d", MaxEndpoints))
	}
	seen := map[string]bool{}
	for i, e := range c.Endpoints {
		if !nameRE.MatchString(e.Name) {
			return bad(fmt.Sprintf("endpoints[%d].name", i), fmt.Sprintf("%q", e.Name), "must be letters, digits, '.', '_' or '-', at most 63")
		}
		if seen[e.Name] {
			return bad("endpoints", e.Name, "there are two endpoints of this name")
		}
		seen[e.Name] = true
		if e.Weight < 0 || e.Weight > math.MaxInt32 {
			return bad("endpoints["+e.Name+"].weight", e.Weight, "must be a whole number from 0 to 2147483647")
		}
		if _, err := ParseEndpointURL(e.URL); err != nil {
			return fmt.Errorf("pools[%s].endpoints[%s].url: %w", c.Name, e.Name, err)
		}
	}
	return nil
}

// notOfTarget reports whether a character must be percent-encoded in a
// request's target: unencoded it would end the target, or what follows would
// not be sent.
func notOfTarget(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }
