package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"kring/peers"
)

// Self is this node as the others know it. bound is the address it listens on
// when node.listen leaves the port open; nil: take node.listen as it is.
func (c Config) Self(bound net.Addr) (peers.Member, error) {
	address := c.Node.Listen
	host, port, err := splitAddress(address)
	if err != nil {
		return peers.Member{}, &FieldError{"node.listen", err.Error()}
	}
	if tcp, ok := bound.(*net.TCPAddr); ok {
		port = tcp.Port
	}
	m := peers.Member{ID: c.Node.ID, Weight: c.Cluster.Weight}
	if m.ID == "" {
		name, err := os.Hostname()
		if err != nil {
			return peers.Member{}, fmt.Errorf("node.id: name this node after its host: %w", err)
		}
		m.ID = name + ":" + strconv.Itoa(port)
	}
	m.URL = strings.TrimSuffix(cmp.Or(c.Node.Advertise, "http://"+net.JoinHostPort(host, strconv.Itoa(port))), "/")
	return m, nil
}

// Ring is the cluster as the configuration lists it, without a connection to
// anybody.
func (c Config) Ring() (*peers.View, error) {
	self, err := c.Self(nil)
	if err != nil {
		return nil, err
	}
	nowhere := func(context.Context, string) (net.Conn, error) {
		return nil, errors.New("the ring is looked at, not used")
	}
	p, err := peers.New(peers.Options{Self: self, Config: c.Cluster, Dial: nowhere})
	if err != nil {
		return nil, err
	}
	return p.View(), nil
}

// maxPoints is what one node may put on the ring: at 8 bytes each, and as many
// again for every node of the cluster, more is a slip of the finger.
const maxPoints = 1 << 20

func (c Config) validateCluster() error {
	if w, v := c.Cluster.Weight, c.Cluster.VirtualNodes; w > 0 && v > maxPoints/w {
		return check(false, "cluster.virtual_nodes", "%d times cluster.weight, %d, are more than %d points", v, w, maxPoints)
	}
	_, err := c.Ring()
	return err
}
