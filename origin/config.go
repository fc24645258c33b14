package origin

import "time"

// Config is one item of the list `pools`: how keys are loaded through the pool.
type Config struct {
	// MaxLoads bounds the loads in flight through this pool. A load beyond it
	// gets a 503 at once. Default: 64. Zero is refused.
	MaxLoads int `mapstructure:"max_loads"`
	// MaxBodyBytes bounds an answer's body in bytes, at most 1 GiB. A longer
	// body is an error. Default: 8 MiB. Zero is refused.
	MaxBodyBytes int64 `mapstructure:"max_body_bytes"`
	// RetryBudget is the share of loads that may be tried a second time, on top
	// of ten second tries a second. Default: 0.1. Zero turns second tries off.
	RetryBudget float64 `mapstructure:"retry_budget"`
	// MaxHeaderBytes bounds the status line and headers of an answer in bytes,
	// together with those of the interim answers (1xx) before it, from 1 KiB to
	// 16 MiB. A longer head is an error. Default: 256 KiB. Zero is refused.
	MaxHeaderBytes int64 `mapstructure:"max_header_bytes"`
	// MaxConnectionAge is the greatest age of a kept connection, at least
	// 100ms. An older connection is closed, and the endpoint's name is looked
	// up again. Default: 5m. Zero: no limit.
	MaxConnectionAge time.Duration `mapstructure:"max_connection_age"`
	// Headers are sent with each request. Default: none besides Kring's own.
	Headers []HeaderConfig `mapstructure:"headers"`
	// CAFile is a file of certificates (PEM). One of them must have signed the
	// certificate of an https endpoint. Default: empty, the system's
	// certificates.
	CAFile string `mapstructure:"ca_file"`
}

// HeaderConfig is a fixed request header. Its value is in the configuration, or
// in a file whose last line break is dropped.
type HeaderConfig struct {
	// Name is the header's name. Host sets the virtual host. Default: none; it
	// must be given.
	Name string `mapstructure:"name"`
	// Value is the header's value. Default: empty.
	Value string `mapstructure:"value"`
	// ValueFile is a file that holds the value. Default: empty, Value is used.
	ValueFile string `mapstructure:"value_file"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{MaxLoads: 64, MaxBodyBytes: 8 << 20, RetryBudget: 0.1, MaxHeaderBytes: 256 << 10, MaxConnectionAge: 5 * time.Minute}
}
