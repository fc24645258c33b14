package balance

import "time"

// Config is what an item of the list `pools` says of choosing an endpoint.
type Config struct {
	Name string `mapstructure:"name"`
	// Policy is round_robin, weighted or smooth_weighted.
	Policy string `mapstructure:"policy"`
	// State is where the policy's state lives: local, or redis.
	State string `mapstructure:"state"`
	// Lease is how long an assignment may stay unfinished (least_in_flight).
	Lease time.Duration `mapstructure:"lease"`
	// MaxEjected is the share of the eligible endpoints that health may take
	// out at once.
	MaxEjected float64       `mapstructure:"max_ejected"`
	SlowStart  time.Duration `mapstructure:"slow_start"`
	KeepCount  time.Duration `mapstructure:"keep_count"`
	Health     HealthConfig  `mapstructure:"health"`
	// Endpoints in the order in which ties are broken.
	Endpoints []EndpointConfig `mapstructure:"endpoints"`
}

// HealthConfig says when an endpoint is taken out, and for how long.
type HealthConfig struct {
	// MaxFails failures in a row eject an endpoint; 0 never does.
	MaxFails int `mapstructure:"max_fails"`
	// FailTimeout is how long it stays out the first time; it doubles with
	// each relapse, with jitter.
	FailTimeout time.Duration `mapstructure:"fail_timeout"`
	// Probe is a path that is asked for every ProbeInterval; empty: no probes.
	Probe         string        `mapstructure:"probe"`
	ProbeInterval time.Duration `mapstructure:"probe_interval"`
}

// EndpointConfig is one endpoint of a pool.
type EndpointConfig struct {
	Name string `mapstructure:"name"`
	URL  string `mapstructure:"url"`
	// Weight is the endpoint's share relative to the others'; 0 is never picked.
	Weight int `mapstructure:"weight"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{
		Policy: "smooth_weighted", State: "local", Lease: 30 * time.Second, MaxEjected: 0.5, KeepCount: 24 * time.Hour,
		Health: HealthConfig{MaxFails: 3, FailTimeout: 10 * time.Second, ProbeInterval: 5 * time.Second},
	}
}
