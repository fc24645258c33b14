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
	// ID is the node's stable name on the ring; empty: host name and port.
	ID string `mapstructure:"id"`
	// Listen is host:port of the client API, the peer link, health and metrics. A
	// configuration that does not set it, and lists this node in cluster.peers,
	// has that address here.
	Listen string `mapstructure:"listen"`
	// Advertise is the URL that other nodes use; empty: http://<listen>.
	Advertise string `mapstructure:"advertise"`
	// PeerListen and AdminListen move the peer link and the operators' routes
	// to listeners of their own; empty: they share Listen.
	PeerListen  string `mapstructure:"peer_listen"`
	AdminListen string `mapstructure:"admin_listen"`
}

// PoolConfig is one item of the list `pools`.
type PoolConfig struct {
	balance.Config `mapstructure:",squash"`
	Origin         origin.Config `mapstructure:",squash"`
}

// TLSConfig is the section `tls`.
type TLSConfig struct {
	CertFile     string `mapstructure:"cert_file"`
	KeyFile      string `mapstructure:"key_file"`
	ClientCAFile string `mapstructure:"client_ca_file"`
}

// HandoffConfig is the section `handoff`.
type HandoffConfig struct {
	// Rate is bytes a second.
	Rate int64 `mapstructure:"rate"`
	// DrainTimeout is the longest from SIGTERM to exit.
	DrainTimeout time.Duration `mapstructure:"drain_timeout"`
}

// LogConfig is the section `log`.
type LogConfig struct {
	Level  string `mapstructure:"level"`  // debug, info, warn or error
	Format string `mapstructure:"format"` // text or json
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
