package cache

import (
	"fmt"
	"regexp"
	"time"
)

var groupName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Validate names the first impossible setting, with its value.
func (c Config) Validate() error {
	switch {
	case c.MaxBytes <= 0:
		return fmt.Errorf("cache.max_bytes: %d: must be more than 0", c.MaxBytes)
	case c.MaxValueBytes <= 0:
		return fmt.Errorf("cache.max_value_bytes: %d: must be more than 0", c.MaxValueBytes)
	case c.MaxKeyBytes <= 0 || c.MaxKeyBytes > 64<<10:
		return fmt.Errorf("cache.max_key_bytes: %d: must be 1 to 65536", c.MaxKeyBytes)
	case !(c.HotShare >= 0 && c.HotShare < 1):
		return fmt.Errorf("cache.hot_share: %v: must be at least 0 and less than 1", c.HotShare)
	case !(c.NegativeShare >= 0 && c.NegativeShare < 1):
		return fmt.Errorf("cache.negative_share: %v: must be at least 0 and less than 1", c.NegativeShare)
	case c.HotShare+c.NegativeShare >= 1:
		return fmt.Errorf("cache.hot_share: %v: leaves no room for values beside negative_share %v", c.HotShare, c.NegativeShare)
	}
	return nil
}

// Validate names the first impossible setting of a group, with its value.
func (g GroupConfig) Validate() error {
	field := func(name string, value any, must string) error {
		return fmt.Errorf("groups[%s].%s: %v: %s", g.Name, name, value, must)
	}
	if !groupName.MatchString(g.Name) {
		return fmt.Errorf("groups: name %q: must be 1 to 63 of a-z, 0-9, _ and -, not beginning with _ or -", g.Name)
	}
	if (g.Origin.Pool == "") != (g.Origin.Path == "") {
		return field("origin", fmt.Sprintf("{pool: %q, path: %q}", g.Origin.Pool, g.Origin.Path), "needs both or neither")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"ttl", g.TTL},
		{"stale_while_revalidate", g.StaleWhileRevalidate},
		{"stale_if_error", g.StaleIfError},
		{"negative_ttl", g.NegativeTTL},
		{"load_timeout", g.LoadTimeout},
	} {
		if d.value < 0 {
			return field(d.name, d.value, "must not be negative")
		}
	}
	switch {
	case !(g.Jitter >= 0 && g.Jitter < 1):
		return field("jitter", g.Jitter, "must be at least 0 and less than 1")
	case !(g.RefreshAhead >= 0 && g.RefreshAhead < 1):
		return field("refresh_ahead", g.RefreshAhead, "must be at least 0 and less than 1")
	case !(g.NewKeyRate >= 0):
		return field("new_key_rate", g.NewKeyRate, "must not be negative")
	case !(g.HotRate >= 0):
		return field("hot_rate", g.HotRate, "must not be negative")
	case g.Partition != "" && g.Partition != "serve" && g.Partition != "refuse":
		return field("partition", g.Partition, "must be serve or refuse")
	}
	if _, err := g.pattern(); err != nil {
		return field("key_pattern", g.KeyPattern, err.Error())
	}
	return nil
}

// pattern compiles KeyPattern so that it must match a whole key. It is nil if there is
// no KeyPattern.
func (g GroupConfig) pattern() (*regexp.Regexp, error) {
	if g.KeyPattern == "" {
		return nil, nil
	}
	// First alone, so that a stray parenthesis cannot pair with one of the next line's.
	if _, err := regexp.Compile(g.KeyPattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + g.KeyPattern + `)\z`)
}
