package node_test

import (
	"testing"

	"kring/node"
)

// The address that the other nodes have for a node must be the one where it
// listens, as far as that shows without resolving names.
func TestCheckAddress(t *testing.T) {
	const peers = "n1=http://10.0.0.1:8001"
	for _, row := range []struct {
		name, listen, advertise string
		url                     string
		ok                      bool
	}{
		{"the same", "10.0.0.1:8001", "", "http://10.0.0.1:8001", true},
		{"another port", "10.0.0.1:8002", "", "http://10.0.0.1:8001", false},
		{"any port", "10.0.0.1:0", "", "http://10.0.0.1:8001", false},
		{"another address", "10.0.0.2:8001", "", "http://10.0.0.1:8001", false},
		{"loopback only", "127.0.0.1:8001", "", "http://10.0.0.1:8001", false},
		{"all addresses", ":8001", "", "http://10.0.0.1:8001", true},
		{"all IPv4 addresses", "0.0.0.0:8001", "", "http://10.0.0.1:8001", true},
		{"all IPv6 addresses", "[::]:8001", "", "http://10.0.0.1:8001", true},
		{"all addresses, another port", "[::]:8002", "", "http://10.0.0.1:8001", false},
		{"an address, and a name to resolve", "10.0.0.1:8001", "", "http://one.example:8001", true},
		{"a name to resolve, and an address", "one.example:8001", "", "http://10.0.0.1:8001", true},
		{"localhost is loopback", "127.0.0.1:8001", "", "http://localhost:8001", true},
		{"localhost is IPv6, too", "[::1]:8001", "", "http://localhost:8001", true},
		{"loopback is localhost", "localhost:8001", "", "http://127.0.0.1:8001", true},
		{"localhost is not another machine", "localhost:8001", "", "http://10.0.0.1:8001", false},
		{"one spelling or another", "[0:0::1]:08001", "", "http://[::1]:8001", true},
		{"a mapped port, meant", "0.0.0.0:9001", "http://10.0.0.1:8001", "http://10.0.0.1:8001", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := node.DefaultConfig()
			cfg.Node = node.Identity{ID: "n1", Listen: row.listen, Advertise: row.advertise}
			cfg.Cluster.Peers = []string{"n1=" + row.url, "n2=http://10.0.0.9:8001"}
			err := cfg.Validate()
			if (err == nil) != row.ok {
				t.Errorf("got %v", err)
			}
			if again := cfg.CheckAddress(); (again == nil) != row.ok {
				t.Errorf("alone: got %v", again)
			}
		})
	}
	cfg := node.DefaultConfig()
	cfg.Cluster.Peers = []string{peers}
	if err := cfg.CheckAddress(); err != nil {
		t.Errorf("a file that nodes share: got %v", err)
	}
}
