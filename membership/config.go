package membership

import (
	"fmt"
	"time"

	"kring/consistenthash"
)

// Config is the section `cluster` of the configuration.
type Config struct {
	// Name is the cluster's name, 1 to 256 bytes. A node refuses nodes of
	// another name. Default: kring. Empty is refused.
	Name string `mapstructure:"name"`
	// Discovery is how nodes find each other. Default: static, the only value
	// of this version.
	Discovery string `mapstructure:"discovery"`
	// Peers are all nodes of the cluster, including this one, each as
	// "id=http://host:port" or "id=http://host:port;weight=N". Default: empty,
	// this node alone.
	Peers []string `mapstructure:"peers"`
	// Electors are not used in this version. Default: empty, the only value.
	Electors []string `mapstructure:"electors"`
	// Lease is not used in this version. Default: 1s, the only value.
	Lease time.Duration `mapstructure:"lease"`
	// Replicas is how many nodes hold a copy of each entry. Default: 1, the
	// only value of this version.
	Replicas int `mapstructure:"replicas"`
	// VirtualNodes is the number of points on the ring for each unit of weight,
	// 1 to 65536. Default: 512. Zero is refused.
	VirtualNodes int `mapstructure:"virtual_nodes"`
	// Weight is this node's share of the ring relative to the others, 1 to
	// 1000. Default: 1. Zero is refused.
	Weight int `mapstructure:"weight"`
	// Hash is crc32 (with a finaliser) or crc32-plain, which places keys as
	// golang/groupcache does. Default: crc32.
	Hash string `mapstructure:"hash"`
	// Secret is shared by all nodes of a cluster. Two nodes prove it to each
	// other once per connection. Default: empty, no proof is asked for.
	Secret string `mapstructure:"secret"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{Name: "kring", Discovery: "static", Lease: time.Second, Replicas: 1, VirtualNodes: 512, Weight: 1, Hash: "crc32"}
}

// MaxName bounds the cluster's name, in bytes.
const MaxName = 256

// hashes are the ring's hash functions by their names in the configuration.
var hashes = map[string]consistenthash.Hash{
	"crc32":       nil, // the default of consistenthash: CRC32 with a finaliser
	"crc32-plain": consistenthash.PlainCRC32,
}

// RingParameters are the settings, besides the members, that must be equal on
// all nodes so that they place keys alike.
func (c Config) RingParameters() string {
	return fmt.Sprintf("hash=%s virtual_nodes=%d", c.Hash, c.VirtualNodes)
}

// checkShared checks the settings that must be equal on all nodes, except the
// list.
func (c Config) checkShared() error {
	if c.Discovery != "static" {
		return fmt.Errorf("cluster.discovery: %q: only static is known", c.Discovery)
	}
	if c.Name == "" {
		return fmt.Errorf("cluster.name: %q: must not be empty", c.Name)
	}
	if len(c.Name) > MaxName {
		return fmt.Errorf("cluster.name: %.20q…: longer than %d bytes", c.Name, MaxName)
	}
	if c.VirtualNodes < 1 || c.VirtualNodes > 1<<16 {
		return fmt.Errorf("cluster.virtual_nodes: %d: must be 1 to %d", c.VirtualNodes, 1<<16)
	}
	if _, ok := hashes[c.Hash]; !ok {
		return fmt.Errorf("cluster.hash: %q: must be crc32 or crc32-plain", c.Hash)
	}
	return nil
}
