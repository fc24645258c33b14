package node

import (
	"time"

	"kring/balance"
	"kring/cache"
	"kring/httpapi"
	"kring/membership"
	"kring/origin"
)

// Config is the whole configuration of one node, with a field for each section
// of the file.
type Config struct {
	Node    Identity            `mapstructure:"node"`
	Cluster membership.Config   `mapstructure:"cluster"`
	Cache   cache.Config        `mapstructure:"cache"`
	Groups  []cache.GroupConfig `mapstructure:"groups"`
	Pools   []PoolConfig        `mapstructure:"pools"`
	Redis   balance.RedisConfig `mapstructure:"redis"`
	Auth    httpapi.Auth        `mapstructure:"auth"`
	TLS     TLSConfig           `mapstructure:"tls"`
	Limits  httpapi.Limits      `mapstructure:"limits"`
	Handoff HandoffConfig       `mapstructure:"handoff"`
	Log     LogConfig           `mapstructure:"log"`
}

// Identity is the section `node`.
type Identity struct {
	// ID is the node's stable name on the ring. Default: empty, host name and
	// port.
	ID string `mapstructure:"id"`
	// Listen is host:port of the client API, the peer link, health and metrics.
	// Default: this node's address in cluster.peers, or else 127.0.0.1:8001.
	Listen string `mapstructure:"listen"`
	// Advertise is the URL that other nodes use. Default: empty,
	// http://<listen>.
	Advertise string `mapstructure:"advertise"`
	// PeerListen is not used in this version: a separate listener for the peer
	// link. Default: empty, the only value.
	PeerListen string `mapstructure:"peer_listen"`
	// AdminListen is not used in this version: a separate listener for the
	// operators' routes. Default: empty, the only value.
	AdminListen string `mapstructure:"admin_listen"`
}

// PoolConfig is one item of the list `pools`.
type PoolConfig struct {
	balance.Config `mapstructure:",squash"`
	Origin         origin.Config `mapstructure:",squash"`
}

// TLSConfig is the section `tls`. This version does not use it.
type TLSConfig struct {
	// CertFile is a file with a certificate (PEM). Default: empty, the only
	// value.
	CertFile string `mapstructure:"cert_file"`
	// KeyFile is a file with its private key (PEM). Default: empty, the only
	// value.
	KeyFile string `mapstructure:"key_file"`
	// ClientCAFile is a file of certificates (PEM). One of them must have
	// signed a client's certificate. Default: empty, the only value.
	ClientCAFile string `mapstructure:"client_ca_file"`
}

// HandoffConfig is the section `handoff`.
type HandoffConfig struct {
	// Rate is not used in this version: how many bytes a second a node hands
	// over. Default: 64 MiB, the only value.
	Rate int64 `mapstructure:"rate"`
	// DrainTimeout is the longest time from SIGTERM to exit, 100ms to 24h.
	// Default: 15s. Zero is refused.
	DrainTimeout time.Duration `mapstructure:"drain_timeout"`
}

// LogConfig is the section `log`.
type LogConfig struct {
	// Level is debug, info, warn or error. Default: info.
	Level string `mapstructure:"level"`
	// Format is text or json. Default: text.
	Format string `mapstructure:"format"`
}

// DefaultConfig is a single useful node: no peers, and a plain group named kv.
func DefaultConfig() Config {
	kv := cache.DefaultGroupConfig("kv")
	kv.TTL = 0
	return Config{
		Node:    Identity{Listen: "127.0.0.1:8001"},
		Cluster: membership.DefaultConfig(),
		Cache:   cache.DefaultConfig(),
		Groups:  []cache.GroupConfig{kv},
		Redis:   balance.DefaultRedisConfig(),
		Limits:  httpapi.DefaultLimits(),
		Handoff: HandoffConfig{Rate: 64 << 20, DrainTimeout: 15 * time.Second},
		Log:     LogConfig{Level: "info", Format: "text"},
	}
}

// DefaultPoolConfig holds the documented defaults of a pool.
func DefaultPoolConfig() PoolConfig {
	return PoolConfig{Config: balance.DefaultConfig(), Origin: origin.DefaultConfig()}
}
