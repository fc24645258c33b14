package httpapi

import (
	"fmt"
	"time"
)

// Limits is the section `limits` of the configuration.
type Limits struct {
	// RequestTimeout is the longest a client's request may take, from 10ms to 24h.
	// Default: 30s. Zero is refused.
	RequestTimeout time.Duration `mapstructure:"request_timeout"`
	// MaxConnections bounds the open client connections. Default: 10000. Zero is
	// refused.
	MaxConnections int `mapstructure:"max_connections"`
	// ConnectionsPerAddress bounds the open connections of one client address.
	// Default: 1000. Zero is refused.
	ConnectionsPerAddress int `mapstructure:"connections_per_address"`
	// RequestsInFlight bounds the requests that are being answered. More get a 503
	// at once. Default: 10000. Zero is refused.
	RequestsInFlight int `mapstructure:"requests_in_flight"`
	// MaxWaiters bounds the requests that wait for a load of this node or another.
	// Default: 10000. Zero is refused.
	MaxWaiters int `mapstructure:"max_waiters"`
	// MaxWaitersPerKey bounds the requests that wait for the load of one key.
	// Default: 5000. Zero is refused.
	MaxWaitersPerKey int `mapstructure:"max_waiters_per_key"`
	// BatchKeys is the most keys of one batch. More get a 413. Default: 1000. Zero
	// is refused.
	BatchKeys int `mapstructure:"batch_keys"`
	// ResponseBytes bounds the memory of values and answers on their way to
	// clients. Up to 1 it is a share of cache.max_bytes, but at least 64 MiB; above
	// 1 it is a number of bytes. Default: 25%. Zero is refused.
	ResponseBytes SizeOrShare `mapstructure:"response_bytes"`
	// RatePerToken is how many requests a second each token may make. More get a
	// 429. Default: 0. Zero: no limit.
	RatePerToken float64 `mapstructure:"rate_per_token"`
}

// SizeOrShare is a number of bytes or, up to 1, a share of another size.
type SizeOrShare float64

const (
	// minResponseShare is the least budget that a share of the cache gives, and
	// minResponseBytes the least that can be set, in bytes.
	minResponseShare = 64 << 20
	minResponseBytes = 1 << 20
)

// Responses is limits.response_bytes in bytes, beside a cache of maxBytes.
func (l Limits) Responses(maxBytes int64) int64 {
	if l.ResponseBytes > 1 {
		return int64(l.ResponseBytes)
	}
	return max(minResponseShare, int64(float64(l.ResponseBytes)*float64(maxBytes)))
}

// DefaultLimits holds the documented defaults.
func DefaultLimits() Limits {
	return Limits{
		RequestTimeout: 30 * time.Second, MaxConnections: 10000, ConnectionsPerAddress: 1000,
		RequestsInFlight: 10000, MaxWaiters: 10000, MaxWaitersPerKey: 5000, BatchKeys: 1000, ResponseBytes: 0.25,
	}
}

// Auth is the section `auth` of the configuration.
type Auth struct {
	// Tokens are the tokens that clients may show. Default: empty; clients need no
	// token, and the node listens on loopback only.
	Tokens []Token `mapstructure:"tokens"`
	// AllowedOriginHosts are the hosts of endpoints that may be added over HTTP:
	// host, host:port or *.domain, with or without http:// or https:// before it.
	// Default: empty; only the hosts of configured endpoints.
	AllowedOriginHosts []string `mapstructure:"allowed_origin_hosts"`
}

// Token lets its bearer do what its role says, in its groups.
type Token struct {
	// Name is for people. Default: empty.
	Name string `mapstructure:"name"`
	// TokenFile is a file of one line: the token, or sha256:HEX. Default: none; it
	// must be given.
	TokenFile string `mapstructure:"token_file"`
	// Role is read, write or admin. Default: none; it must be given.
	Role string `mapstructure:"role"`
	// Groups are the groups that the token is for. Default: empty; all groups.
	Groups []string `mapstructure:"groups"`
}

// maxResponseBytes is the most that limits.response_bytes may be: no machine has
// as much memory.
const maxResponseBytes = 1 << 50

// validate names the first limit that is not possible.
func (l Limits) validate() error {
	if l.RequestTimeout <= 0 {
		return fmt.Errorf("limits.request_timeout: %v is not above zero", l.RequestTimeout)
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"max_connections", l.MaxConnections},
		{"connections_per_address", l.ConnectionsPerAddress},
		{"requests_in_flight", l.RequestsInFlight},
		{"max_waiters", l.MaxWaiters},
		{"max_waiters_per_key", l.MaxWaitersPerKey},
		{"batch_keys", l.BatchKeys},
	} {
		if f.value <= 0 {
			return fmt.Errorf("limits.%s: %d is not above zero", f.name, f.value)
		}
	}
	if err := l.CheckResponses(); err != nil {
		return err
	}
	if l.RatePerToken < 0 {
		return fmt.Errorf("limits.rate_per_token: %v is below zero", l.RatePerToken)
	}
	return nil
}

// CheckResponses returns an error if response_bytes is not possible.
func (l Limits) CheckResponses() error {
	b := float64(l.ResponseBytes)
	if b > 0 && b <= 1 || b >= minResponseBytes && b <= maxResponseBytes {
		return nil
	}
	return fmt.Errorf("limits.response_bytes: %.0f is neither a share above 0%% nor a size from 1MiB on", b)
}
