package node

import (
	"context"
	"errors"
	"math"
	"net"
	"syscall"
	"time"
)

const (
	// ownDescriptors are those of a process besides connections: its standard
	// streams, poller and listener, and files it opens for a moment, such as the
	// resolver's, /proc for the metrics, and the configuration at a reload.
	ownDescriptors = 24
	// perPeer are one link in each direction, and one that is being made.
	perPeer = 3
	// leastConnections of clients are accepted however few descriptors there are.
	leastConnections = 4

	// roomTries and roomTime bound what a dial does to get a descriptor.
	roomTries = 3
	roomTime  = 2 * time.Millisecond
)

// connectionsWithin is how many of a process's descriptors are for clients, so
// that these take away neither the links between nodes nor, altogether, the
// loads: those get a third at most, because idle clients can be made to go.
func (c Config) connectionsWithin(descriptors uint64) int {
	left := int(min(descriptors, math.MaxInt32)) - ownDescriptors - perPeer*max(0, len(c.Cluster.Peers)-1) - c.Redis.Connections()
	loads := 0
	for _, p := range c.Pools {
		loads += p.Origin.MaxLoads
	}
	left -= min(loads, left/3)
	return max(leastConnections, left)
}

// descriptors is how many the process may have open. The Go runtime has raised
// the limit as far as it may by itself.
func descriptors() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err
}

// limitConnections lowers limits.max_connections to what the process has
// descriptors for.
func (n *Node) limitConnections() {
	limit, err := descriptors()
	if err != nil {
		n.log.Warn("the limit of open files is unknown", "error", err)
		return
	}
	if most := n.cfg.connectionsWithin(limit); most < n.cfg.Limits.MaxConnections {
		n.log.Warn("limits.max_connections is more than the limit of open files leaves room for",
			"max_connections", n.cfg.Limits.MaxConnections, "used", most, "open_files", limit)
		n.cfg.Limits.MaxConnections = most
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// makingRoom is dial for a process that may be out of descriptors: the client
// that has been idle for longest then gives up its own. Loads and links go
// before clients that wait for nothing.
func (n *Node) makingRoom(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		for try := 0; ; try++ {
			conn, err := dial(ctx, network, address)
			if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
				return conn, err
			}
			api := n.serving.Load()
			if try == roomTries || api == nil || !api.CloseIdle() {
				return nil, err
			}
			select {
			case <-time.After(roomTime): // its reader lets go of the descriptor
			case <-ctx.Done():
				return nil, err
			}
		}
	}
}
