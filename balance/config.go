package balance

import "time"

// Config is what an item of the list `pools` says of choosing an endpoint.
type Config struct {
	// Name is 1 to 63 letters, digits, '.', '_' and '-'. Default: none, it must be
	// given.
	Name string `mapstructure:"name"`
	// Policy is round_robin, weighted, smooth_weighted, least_assigned or
	// least_in_flight. Default: smooth_weighted.
	Policy string `mapstructure:"policy"`
	// State is where the policy's state lives: local, in this process, or
	// redis, where all processes share it (least_assigned, least_in_flight).
	// Default: local.
	State string `mapstructure:"state"`
	// Lease is how long an assignment over HTTP, or in the shared state of
	// least_in_flight, may stay unfinished unless it is renewed; from 500ms.
	// Default: 30s. Zero is refused.
	Lease time.Duration `mapstructure:"lease"`
	// MaxEjected is the share of the eligible endpoints, by their number and
	// rounded up, that health may take out at once. Default: 1, all. 0: none.
	// While none is healthy, all eligible ones are picked, whatever it is.
	MaxEjected float64 `mapstructure:"max_ejected"`
	// SlowStart is how long an endpoint that comes (back) takes to get its
	// whole share. It never applies when the process starts. Default: 0. Zero:
	// none.
	SlowStart time.Duration `mapstructure:"slow_start"`
	// KeepCount is how long the count of a removed endpoint is kept, in which it
	// goes on when it is added again. Default: 24h. Zero: it starts anew.
	KeepCount time.Duration `mapstructure:"keep_count"`
	// Health says when an endpoint is taken out. Default: see HealthConfig.
	Health HealthConfig `mapstructure:"health"`
	// Endpoints are at most 1000, in the order in which ties are broken. Default:
	// empty, they are added over HTTP.
	Endpoints []EndpointConfig `mapstructure:"endpoints"`
}

// HealthConfig says when an endpoint is taken out, and for how long.
type HealthConfig struct {
	// MaxFails failures in a row eject an endpoint. Default: 3. 0: none does.
	MaxFails int `mapstructure:"max_fails"`
	// FailTimeout is how long it stays out the first time, at least 100ms; it
	// doubles with each failed trial and each relapse, with jitter. Default: 10s.
	// Zero is refused.
	FailTimeout time.Duration `mapstructure:"fail_timeout"`
	// FailStatuses are the statuses of an answer, from 400 to 599, that count as a
	// failure of the endpoint, like no answer. Default: 502, 503 and 504. Empty:
	// none. All others are about the key: an application that answers 500 for
	// some keys is not sick for that.
	FailStatuses []int `mapstructure:"fail_statuses"`
	// Probe is a path that is asked for every ProbeInterval, in place of trials.
	// Default: empty, no probes.
	Probe string `mapstructure:"probe"`
	// ProbeInterval is 100ms to 24h. Default: 5s. Zero is refused.
	ProbeInterval time.Duration `mapstructure:"probe_interval"`
}

// EndpointConfig is one endpoint of a pool.
type EndpointConfig struct {
	// Name is 1 to 63 letters, digits, '.', '_' and '-'. Default: none, it must be
	// given.
	Name string `mapstructure:"name"`
	// URL is http or https, a host, perhaps a port and a path that is put in front
	// of all others. Default: none, it must be given.
	URL string `mapstructure:"url"`
	// Weight is the endpoint's share relative to the others', 0 to 2147483647.
	// Default: 1. Zero: it is never picked.
	Weight int `mapstructure:"weight"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{
		Policy: "smooth_weighted", State: "local", Lease: 30 * time.Second, MaxEjected: 1, KeepCount: 24 * time.Hour,
		Health: HealthConfig{MaxFails: 3, FailTimeout: 10 * time.Second, FailStatuses: []int{502, 503, 504}, ProbeInterval: 5 * time.Second},
	}
}
