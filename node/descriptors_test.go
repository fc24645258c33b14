package node

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestConnectionsWithin(t *testing.T) {
	three := func(loads int) Config {
		c := Config{}
		c.Cluster.Peers = []string{"a", "b", "c"}
		p := DefaultPoolConfig()
		p.Origin.MaxLoads = loads
		c.Pools = []PoolConfig{p}
		return c
	}
	for _, tc := range []struct {
		config Config
		files  uint64
		want   int
	}{
		{Config{}, 64, 40},
		{three(64), 64, 23}, // 34 remain beside the node and its links; a third is for loads
		{three(64), 1024, 930},
		{three(5), 64, 29},
		{three(64), 30, 4},
		{Config{}, 0, 4},
		{Config{}, 1<<64 - 1, 1<<31 - 1 - 24}, // RLIM_INFINITY
	} {
		if got := tc.config.connectionsWithin(tc.files); got != tc.want {
			t.Errorf("%d files: %d connections, want %d", tc.files, got, tc.want)
		}
	}
}

// If no client can give up a descriptor, a dial fails with its own error. Other
// errors are not tried again.
func TestMakingRoomGivesUp(t *testing.T) {
	for _, fault := range []error{syscall.EMFILE, syscall.ECONNREFUSED} {
		dials := 0
		n := &Node{}
		_, err := n.makingRoom(func(context.Context, string, string) (net.Conn, error) {
			dials++
			return nil, fault
		})(t.Context(), "tcp", "127.0.0.1:1")
		if !errors.Is(err, fault) || dials != 1 {
			t.Errorf("%v after %d dials", err, dials)
		}
	}
}
