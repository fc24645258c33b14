package peers

import "time"

// Config is the section `cluster` of the configuration.
type Config struct {
	// Name is the cluster's name; nodes of another name are refused.
	Name string `mapstructure:"name"`
	// Discovery is how nodes find each other: static.
	Discovery string `mapstructure:"discovery"`
	// Peers are all nodes of the cluster, this one included: "id=http://host:port".
	// Empty: this node alone.
	Peers    []string      `mapstructure:"peers"`
	Electors []string      `mapstructure:"electors"`
	Lease    time.Duration `mapstructure:"lease"`
	Replicas int           `mapstructure:"replicas"`
	// VirtualNodes is the number of points on the ring for each unit of weight.
	VirtualNodes int `mapstructure:"virtual_nodes"`
	// Weight is this node's share of the ring relative to the others'.
	Weight int `mapstructure:"weight"`
	// Hash is crc32 (with finaliser) or crc32-plain (as golang/groupcache places keys).
	Hash string `mapstructure:"hash"`
	// Secret is shared by all nodes of a cluster; each proves it to the other
	// once per connection. Empty: none asked for.
	Secret string `mapstructure:"secret"`
}

// DefaultConfig holds the documented defaults.
func DefaultConfig() Config {
	return Config{Name: "kring", Discovery: "static", Lease: time.Second, Replicas: 1, VirtualNodes: 512, Weight: 1, Hash: "crc32"}
}
