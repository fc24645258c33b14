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
	// ownDescriptors are a process's descriptors besides connections: its
	// standard streams, poller and listener, and files that it opens for a
	// moment, such as the resolver's, /proc for the metrics, and the
	// configuration at a reload.
	ownDescriptors = 24
	// perPeer is one link in each direction, and one connection attempt.
	perPeer = 3
	// leastConnections are always left for clients, however few descriptors
	// there are.
	leastConnections = 4

	// roomTries and roomTime bound the attempts of a dial to get a descriptor.
	roomTries = 3
	roomTime  = 2 * time.Millisecond
)

// connectionsWithin is how many of a process's descriptors clients may use.
// Links between nodes keep their own. Loads keep a third at most, because idle
// clients can be disconnected to make room for loads.
func (c Config) connectionsWithin(descriptors uint64) int {
	rest := int(min(descriptors, math.MaxInt32)) - ownDescriptors - perPeer*max(0, len(c.Cluster.Peers)-1) - c.Redis.Connections()
	loads := 0
	for _, p := range c.Pools {
		loads += p.Origin.MaxLoads
	}
	rest -= min(loads, rest/3)
	return max(leastConnections, rest)
}

// descriptors is how many descriptors the process may open. The Go runtime has
// already raised the limit as far as it may.
func descriptors() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err
}

// limitConnections lowers limits.max_connections to the descriptors of the
// process.
func (n *Node) limitConnections() {
	limit, err := descriptors()
	if err != nil {
		n.log.Warn("cannot read the limit of open files", "error", err)
		return
	}
	if most := n.cfg.connectionsWithin(limit); most < n.cfg.Limits.MaxConnections {
		n.log.Warn("limits.max_connections is more than the limit of open files allows",
			"max_connections", n.cfg.Limits.MaxConnections, "used", most, "open_files", limit)
		n.cfg.Limits.MaxConnections = most
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// makingRoom makes a dial that works when the process has no descriptor left:
// the API disconnects the client that has been idle for longest. Loads and
// links are more important than idle clients.
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
			case <-time.After(roomTime): // until the connection's reader has closed the descriptor
			case <-ctx.Done():
				return nil, err
			}
		}
	}
}
