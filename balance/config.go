package balance

import "time"

// Config is what an item of the list `pools` says of choosing an endpoint.
type Config struct {
	Name string `mapstructure:"name"`
	// Policy is round_robin, weighted, smooth_weighted, least_assigned or
	// least_in_flight.
	Policy string `mapstructure:"policy"`
	// State is where the policy's state lives: local, in this process, or
	// redis, where all processes share it (least_assigned, least_in_flight).
	State string `mapstructure:"state"`
	// Lease is how long an assignment over HTTP, or in the shared state of
	// least_in_flight, may stay unfinished unless it is renewed.
	Lease time.Duration `mapstructure:"lease"`
	// MaxEjected is the share of the eligible endpoints, by their number and
	// rounded up, that health may take out at once. Default: 1, all. 0: none.
	// While none is healthy, all eligible ones are picked, whatever it is.
	MaxEjected float64 `mapstructure:"max_ejected"`
	// SlowStart is how long an endpoint that comes (back) takes to get its
	// whole share; 0: none. It never applies when the process starts.
	SlowStart time.Duration `mapstructure:"slow_start"`
	// KeepCount is how long what was counted of a removed endpoint is kept.
	KeepCount time.Duration `mapstructure:"keep_count"`
	Health    HealthConfig  `mapstructure:"health"`
	// Endpoints in the order in which ties are broken.
	Endpoints []EndpointConfig `mapstructure:"endpoints"`
}

// HealthConfig says when an endpoint is taken out, and for how long.
type HealthConfig struct {
	// MaxFails failures in a row eject an endpoint. Default: 3. 0: none does.
	MaxFails int `mapstructure:"max_fails"`
	// FailTimeout is how long it stays out the first time, at least 100ms; it
	// doubles with each failed trial and each relapse, with jitter. Default: 10s.
	FailTimeout time.Duration `mapstructure:"fail_timeout"`
	// FailStatuses are the statuses of an answer, from 400 to 599, that count as a
	// failure of the endpoint, like no answer. Default: 502, 503 and 504. Empty:
	// none. All others are about the key: an application that answers 500 for
	// some keys is not sick for that.
	FailStatuses []int `mapstructure:"fail_statuses"`
	// Probe is a path that is asked for every ProbeInterval, in place of trials.
	// Default: empty, no probes.
	Probe string `mapstructure:"probe"`
	// ProbeInterval is at least 100ms. Default: 5s.
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
		Policy: "smooth_weighted", State: "local", Lease: 30 * time.Second, MaxEjected: 1, KeepCount: 24 * time.Hour,
		Health: HealthConfig{MaxFails: 3, FailTimeout: 10 * time.Second, FailStatuses: []int{502, 503, 504}, ProbeInterval: 5 * time.Second},
	}
}
