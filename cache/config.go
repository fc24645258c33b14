package cache

import "time"

// Config is the section `cache` of the configuration. Sizes are bytes, shares
// are fractions of 1.
type Config struct {
	// MaxBytes bounds all that the store holds: keys, values and overhead. It is at
	// least 64 KiB. Default: 256 MiB. Zero is refused.
	MaxBytes int64 `mapstructure:"max_bytes"`
	// MaxValueBytes is the size of the largest value that is stored, at most 1 GiB. A
	// larger value from an origin is served and not stored. A larger PUT is refused.
	// Default: 1 MiB. Zero is refused.
	MaxValueBytes int64 `mapstructure:"max_value_bytes"`
	// MaxKeyBytes is the length of the longest key, at most 65536. Default: 1024. Zero
	// is refused.
	MaxKeyBytes int `mapstructure:"max_key_bytes"`
	// HotShare is not used in this version: the part of MaxBytes that copies of
	// other nodes' hot keys may take. Default: 0.12, the only value.
	HotShare float64 `mapstructure:"hot_share"`
	// NegativeShare is the part of MaxBytes that entries for missing keys may
	// take. Default: 0.02. Zero: missing keys are not remembered.
	NegativeShare float64 `mapstructure:"negative_share"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{MaxBytes: 256 << 20, MaxValueBytes: 1 << 20, MaxKeyBytes: 1024, HotShare: 0.12, NegativeShare: 0.02}
}

// GroupConfig is one item of the list `groups`.
type GroupConfig struct {
	// Name is 1 to 63 of a-z, 0-9, _ and -. Default: none, it is required.
	Name string `mapstructure:"name"`
	// Origin is where misses go. Default: nowhere. Such a group is filled by PUT.
	Origin OriginConfig `mapstructure:"origin"`
	// TTL is how long a value is fresh if the origin does not say. Default: 60s with an
	// origin, 0 without. Zero: for ever.
	TTL time.Duration `mapstructure:"ttl"`
	// Jitter shortens each lifetime by a random part of up to this share.
	// Default: 0.1. Zero: none.
	Jitter float64 `mapstructure:"jitter"`
	// StaleWhileRevalidate is how long after its TTL a value is still served
	// while it is refreshed in the background. Default: 30s. Zero: not at all.
	StaleWhileRevalidate time.Duration `mapstructure:"stale_while_revalidate"`
	// StaleIfError is how long after its TTL a value is served in place of an
	// origin's error. Default: 10m. Zero: not at all.
	StaleIfError time.Duration `mapstructure:"stale_if_error"`
	// NegativeTTL is how long the node remembers that the origin has no such
	// key. Default: 5s. Zero: not at all.
	NegativeTTL time.Duration `mapstructure:"negative_ttl"`
	// RefreshAhead is the last share of the TTL in which a get refreshes the key
	// early. Default: 0. Zero: off.
	RefreshAhead float64 `mapstructure:"refresh_ahead"`
	// RespectCacheControl lets the origin's headers decide on the lifetime of its
	// values. Default: true.
	RespectCacheControl bool `mapstructure:"respect_cache_control"`
	// LoadTimeout is the longest that one load may take. Default: 10s. A
	// configuration refuses zero; in code it is the default.
	LoadTimeout time.Duration `mapstructure:"load_timeout"`
	// KeyPattern is a regular expression that a whole key must match. The answer for any
	// other key is 404, without a load. Default: empty, all keys.
	KeyPattern string `mapstructure:"key_pattern"`
	// NewKeyRate is how many loads a second there may be for keys that the node has not
	// seen since its start. Any more are refused. Default: 0. Zero: no limit.
	NewKeyRate float64 `mapstructure:"new_key_rate"`
	// HotRate is not used in this version: gets a second from other nodes from
	// which a key counts as hot. Default: 100, the only value.
	HotRate float64 `mapstructure:"hot_rate"`
	// Partition is not used in this version: serve or refuse. Default: serve, the
	// only value.
	Partition string `mapstructure:"partition"`

	// CheckKey refuses keys that the group's origin cannot be asked for. Nil accepts all
	// keys. It is not a setting: the node sets it.
	CheckKey func(key string) error `mapstructure:"-"`
}

// OriginConfig says where a group's misses go. The zero value means that there is no
// origin, and that PUT fills the group.
type OriginConfig struct {
	// Pool is the name of an item of the list `pools`. Default: empty, no origin.
	Pool string `mapstructure:"pool"`
	// Path is the path of the request to an endpoint, with {key} or {+key} in it once.
	// Default: empty, no origin.
	Path string `mapstructure:"path"`
}

// DefaultGroupConfig holds the documented defaults of a group with an origin. Without an
// origin the default TTL is 0, for ever.
func DefaultGroupConfig(name string) GroupConfig {
	return GroupConfig{
		Name: name, TTL: 60 * time.Second, Jitter: 0.1,
		StaleWhileRevalidate: 30 * time.Second, StaleIfError: 10 * time.Minute,
		NegativeTTL: 5 * time.Second, RespectCacheControl: true,
		LoadTimeout: 10 * time.Second, HotRate: 100, Partition: "serve",
	}
}
