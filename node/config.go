package node

import (
	"time"

	"kring/balance"
	"kring/cache"
	"kring/httpapi"
	"kring/membership"
	"kring/origin"
)

// Config is everything that one node is built from: the configuration file,
// section by section.
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
	// ID is the node's stable name on the ring. Default: empty, which is host name
	// and port.
	ID string `mapstructure:"id"`
	// Listen is host:port of the client API, the peer link, health and metrics. A
	// configuration that does not set it, and lists this node in cluster.peers,
	// has that address here. Default: 127.0.0.1:8001.
	Listen string `mapstructure:"listen"`
	// Advertise is the URL that other nodes use. Default: empty, which is
	// http://<listen>.
	Advertise string `mapstructure:"advertise"`
	// PeerListen is not used in this version: a listener of its own for the peer
	// link. Default: empty, the only value.
	PeerListen string `mapstructure:"peer_listen"`
	// AdminListen is not used in this version: a listener of its own for the
	// operators' routes. Default: empty, the only value.
	AdminListen string `mapstructure:"admin_listen"`
}

// PoolConfig is one item of the list `pools`.
type PoolConfig struct {
	balance.Config `mapstructure:",squash"`
	Origin         origin.Config `mapstructure:",squash"`
}

// TLSConfig is the section `tls`. None of it is used in this version.
type TLSConfig struct {
	// CertFile is a certificate (PEM). Default: empty, the only value.
	CertFile string `mapstructure:"cert_file"`
	// KeyFile is its private key (PEM). Default: empty, the only value.
	KeyFile string `mapstructure:"key_file"`
	// ClientCAFile has the certificates (PEM) that clients' must be signed by.
	// Default: empty, the only value.
	ClientCAFile string `mapstructure:"client_ca_file"`
}

// HandoffConfig is the section `handoff`.
type HandoffConfig struct {
	// Rate is not used in this version: bytes a second that a node hands over.
	// Default: 64 MiB, the only value.
	Rate int64 `mapstructure:"rate"`
	// DrainTimeout is the longest from SIGTERM to exit, from 100ms to 24h.
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

// DefaultConfig is one useful node: no peers, and a plain group named kv.
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
