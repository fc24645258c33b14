package origin

import "time"

// Config is what an item of the list `pools` says of loading through it.
type Config struct {
	// MaxLoads bounds the loads under way through this pool; more get a 503 at
	// once. Default: 64. Zero is refused.
	MaxLoads int `mapstructure:"max_loads"`
	// MaxBodyBytes bounds an answer's body, at most 1 GiB; a longer one is an
	// error. Default: 8 MiB. Zero is refused.
	MaxBodyBytes int64 `mapstructure:"max_body_bytes"`
	// RetryBudget is the share of loads that may be tried a second time, on top of
	// ten second tries a second. Default: 0.1. Zero turns second tries off.
	RetryBudget float64 `mapstructure:"retry_budget"`
	// MaxHeaderBytes bounds the status line and headers of an answer, together
	// with those of the interim answers (1xx) before it, from 1 KiB to 16 MiB. A
	// longer head is an error. Default: 256 KiB. Zero is refused.
	MaxHeaderBytes int64 `mapstructure:"max_header_bytes"`
	// MaxConnectionAge is how old a connection may be that is kept for the next
	// load, at least 100ms. An older one is closed, and the endpoint's name is
	// looked up again. Default: 5m. Zero: no limit.
	MaxConnectionAge time.Duration `mapstructure:"max_connection_age"`
	// Headers are sent with each request. Default: none besides our own.
	Headers []HeaderConfig `mapstructure:"headers"`
	// CAFile holds the certificates (PEM) that an https endpoint's must be
	// signed by. Default: empty, the system's.
	CAFile string `mapstructure:"ca_file"`
}

// HeaderConfig is a fixed request header: its value stands in the
// configuration, or in a file whose last line break is dropped.
type HeaderConfig struct {
	// Name is the header's; Host names the virtual host. Default: none, it must be
	// given.
	Name string `mapstructure:"name"`
	// Value is what the header says. Default: empty.
	Value string `mapstructure:"value"`
	// ValueFile is a file that has the value. Default: empty, Value counts.
	ValueFile string `mapstructure:"value_file"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{MaxLoads: 64, MaxBodyBytes: 8 << 20, RetryBudget: 0.1, MaxHeaderBytes: 256 << 10, MaxConnectionAge: 5 * time.Minute}
}
