package node

import (
	"fmt"
	"strings"
	"time"
)

// The ranges of settings. Beyond them a node would not work: a loop that never
// rests, a deadline that always fails, a number that overflows.
const (
	leastWait     = 10 * time.Millisecond  // for waits of a request
	leastPeriod   = 100 * time.Millisecond // for repeated work
	leastLifetime = time.Millisecond
	day           = 24 * time.Hour
	year          = 365 * day
	longest       = 10 * year // for lifetimes

	leastCache = 64 << 10
	mostCache  = 1 << 50
	mostValue  = 1 << 30 // a whole value is in memory
)

// span is the range of a duration. zero also allows 0, where that means off or
// for ever.
type span struct {
	field       string
	value       time.Duration
	least, most time.Duration
	orZero      bool
}

func (s span) check() error {
	if s.orZero && s.value == 0 {
		return nil
	}
	zero := ""
	if s.orZero && s.least > 0 {
		zero = "0 or "
	}
	return check(s.value >= s.least && s.value <= s.most, s.field, "%v must be %s%s to %s", s.value, zero, ShortDuration(s.least), ShortDuration(s.most))
}

// ShortDuration is a duration without zero parts: 24h for 24h0m0s.
func ShortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// spans are all durations of the configuration, except those that their own
// package bounds: redis.timeout and cluster.lease, which is fixed.
func (c Config) spans() []span {
	spans := []span{
		{field: "limits.request_timeout", value: c.Limits.RequestTimeout, least: leastWait, most: day},
		{field: "handoff.drain_timeout", value: c.Handoff.DrainTimeout, least: leastPeriod, most: day},
	}
	for i, g := range c.Groups {
		at := fmt.Sprintf("groups[%s].", itemName(g.Name, i))
		spans = append(spans,
			span{at + "ttl", g.TTL, leastLifetime, longest, true},
			span{at + "stale_while_revalidate", g.StaleWhileRevalidate, 0, longest, true},
			span{at + "stale_if_error", g.StaleIfError, 0, longest, true},
			span{at + "negative_ttl", g.NegativeTTL, 0, longest, true},
			span{at + "load_timeout", g.LoadTimeout, leastWait, day, false},
		)
	}
	for i, p := range c.Pools {
		at := fmt.Sprintf("pools[%s].", itemName(p.Name, i))
		spans = append(spans,
			span{at + "lease", p.Lease, 500 * time.Millisecond, 30 * day, false},
			span{at + "slow_start", p.SlowStart, 0, day, true},
			span{at + "keep_count", p.KeepCount, 0, year, true},
			span{at + "max_connection_age", p.Origin.MaxConnectionAge, leastPeriod, year, true},
		)
	}
	return spans
}

// validateRanges refuses durations and sizes that no node can work with.
func (c Config) validateRanges() (errs []error) {
	for _, s := range c.spans() {
		errs = append(errs, s.check())
	}
	size := func(field string, value, least, most int64) {
		errs = append(errs, check(value >= least && value <= most, field, "%d must be %d to %d bytes", value, least, most))
	}
	size("cache.max_bytes", c.Cache.MaxBytes, leastCache, mostCache)
	size("cache.max_value_bytes", c.Cache.MaxValueBytes, 1, mostValue)
	for i, p := range c.Pools {
		size(fmt.Sprintf("pools[%s].max_body_bytes", itemName(p.Name, i)), p.Origin.MaxBodyBytes, 1, mostValue)
	}
	return errs
}
