package balance

import "time"

// Config is one item of the list `pools`: how an endpoint is chosen.
type Config struct {
	// Name is 1 to 63 letters, digits, '.', '_' and '-'. Default: none; it must
	// be given.
	Name string `mapstructure:"name"`
	// Policy is round_robin, weighted, smooth_weighted, least_assigned or
	// least_in_flight. Default: smooth_weighted.
	Policy string `mapstructure:"policy"`
	// State is where the policy keeps its state: local, in this process, or
	// redis, where all processes share it. Only least_assigned and
	// least_in_flight can share. Default: local.
	State string `mapstructure:"state"`
	// Lease is how long an assignment may stay unfinished unless it is renewed;
	// at least 500ms. It applies to assignments over HTTP and to the shared
	// state of least_in_flight. Default: 30s. Zero is refused.
	Lease time.Duration `mapstructure:"lease"`
	// MaxEjected is the share of the eligible endpoints that may be ejected at
	// once, by their number, rounded up. When no endpoint is healthy, all
	// eligible endpoints are picked, whatever the share. Default: 1, all. Zero:
	// health ejects no endpoint.
	MaxEjected float64 `mapstructure:"max_ejected"`
	// SlowStart is how long a new or returning endpoint takes to reach its
	// whole share. It does not apply when the process starts. Default: 0. Zero:
	// no slow start.
	SlowStart time.Duration `mapstructure:"slow_start"`
	// KeepCount is how long the count of a removed endpoint is kept. An
	// endpoint that is added again within that time goes on from its count.
	// Default: 24h. Zero: the count starts anew.
	KeepCount time.Duration `mapstructure:"keep_count"`
	// Health says when an endpoint is ejected. Default: see HealthConfig.
	Health HealthConfig `mapstructure:"health"`
	// Endpoints are at most 1000. Their order breaks ties. Default: empty;
	// endpoints are then added over HTTP.
	Endpoints []EndpointConfig `mapstructure:"endpoints"`
}

// HealthConfig says when an endpoint is ejected, and for how long.
type HealthConfig struct {
	// MaxFails is how many failures in a row eject an endpoint. Default: 3.
	// Zero: health ejects no endpoint.
	MaxFails int `mapstructure:"max_fails"`
	// FailTimeout is how long the first ejection lasts, at least 100ms. It
	// doubles, with jitter, with each failed trial and each relapse. Default:
	// 10s. Zero is refused.
	FailTimeout time.Duration `mapstructure:"fail_timeout"`
	// FailStatuses are the statuses, from 400 to 599, that count as a failure
	// of the endpoint, as no answer does. Every other status is about the key:
	// an application that answers 500 for some keys is not sick. Default: 502,
	// 503 and 504. Empty: no status counts.
	FailStatuses []int `mapstructure:"fail_statuses"`
	// Probe is a path that is requested every ProbeInterval, in place of
	// trials. Default: empty, no probes.
	Probe string `mapstructure:"probe"`
	// ProbeInterval is the time between two probes, 100ms to 24h. Default: 5s.
	// Zero is refused.
	ProbeInterval time.Duration `mapstructure:"probe_interval"`
}

// EndpointConfig is one endpoint of a pool.
type EndpointConfig struct {
	// Name is 1 to 63 letters, digits, '.', '_' and '-'. Default: none; it must
	// be given.
	Name string `mapstructure:"name"`
	// URL is http or https, a host, and optionally a port and a path, which is
	// put in front of all paths. Default: none; it must be given.
	URL string `mapstructure:"url"`
	// Weight is the endpoint's share relative to the others, 0 to 2147483647.
	// Default: 1. Zero: the endpoint is never picked.
	Weight int `mapstructure:"weight"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{
		Policy: "smooth_weighted", State: "local", Lease: 30 * time.Second, MaxEjected: 1, KeepCount: 24 * time.Hour,
		Health: HealthConfig{MaxFails: 3, FailTimeout: 10 * time.Second, FailStatuses: []int{502, 503, 504}, ProbeInterval: 5 * time.Second},
	}
}
