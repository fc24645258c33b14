package cache

import "time"

// Config is the section `cache` of the configuration. Sizes are bytes, shares
// are fractions of 1.
type Config struct {
	// MaxBytes bounds everything the store holds: keys, values, overhead.
	MaxBytes int64 `mapstructure:"max_bytes"`
	// MaxValueBytes is the largest value that is stored; larger ones from an
	// origin are served only, larger PUTs are refused.
	MaxValueBytes int64 `mapstructure:"max_value_bytes"`
	// MaxKeyBytes is the longest key, in bytes.
	MaxKeyBytes int `mapstructure:"max_key_bytes"`
	// HotShare is the part of MaxBytes that copies of other nodes' hot keys may take.
	HotShare float64 `mapstructure:"hot_share"`
	// NegativeShare is the part of MaxBytes that entries for missing keys may take.
	NegativeShare float64 `mapstructure:"negative_share"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{MaxBytes: 256 << 20, MaxValueBytes: 1 << 20, MaxKeyBytes: 1024, HotShare: 0.12, NegativeShare: 0.02}
}

// GroupConfig is one item of the list `groups`.
type GroupConfig struct {
	Name   string       `mapstructure:"name"`
	Origin OriginConfig `mapstructure:"origin"`
	// TTL is how long a value is fresh; 0 means for ever. Default: 60s with an
	// origin, 0 without.
	TTL time.Duration `mapstructure:"ttl"`
	// Jitter shortens each lifetime by a random part of up to this share.
	Jitter               float64       `mapstructure:"jitter"`
	StaleWhileRevalidate time.Duration `mapstructure:"stale_while_revalidate"`
	StaleIfError         time.Duration `mapstructure:"stale_if_error"`
	NegativeTTL          time.Duration `mapstructure:"negative_ttl"`
	// RefreshAhead is the last share of the TTL in which a key that is asked
	// for is refreshed early; 0 is off.
	RefreshAhead        float64       `mapstructure:"refresh_ahead"`
	RespectCacheControl bool          `mapstructure:"respect_cache_control"`
	LoadTimeout         time.Duration `mapstructure:"load_timeout"`
	KeyPattern          string        `mapstructure:"key_pattern"`
	NewKeyRate          float64       `mapstructure:"new_key_rate"`
	HotRate             float64       `mapstructure:"hot_rate"`
	Partition           string        `mapstructure:"partition"`

	// CheckKey refuses keys that the group's origin cannot be asked for; nil
	// accepts all. It is not a setting: the node sets it.
	CheckKey func(key string) error `mapstructure:"-"`
}

// OriginConfig says where a group's misses go. The zero value is a plain
// key-value group, filled by PUT.
type OriginConfig struct {
	Pool string `mapstructure:"pool"`
	Path string `mapstructure:"path"`
}

// DefaultGroupConfig holds the documented defaults of a group with an origin;
// without one the TTL is 0, for ever.
func DefaultGroupConfig(name string) GroupConfig {
	return GroupConfig{
		Name: name, TTL: 60 * time.Second, Jitter: 0.1,
		StaleWhileRevalidate: 30 * time.Second, StaleIfError: 10 * time.Minute,
		NegativeTTL: 5 * time.Second, RespectCacheControl: true,
		LoadTimeout: 10 * time.Second, HotRate: 100, Partition: "serve",
	}
}
