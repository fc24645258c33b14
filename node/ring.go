package node

import (
	"cmp"
	"slices"
	"strings"

	"kring/membership"
)

// Shared reports whether several nodes share the configuration, and it names
// none of them: node.id is not set, and this host's name is not in the list. It
// can be checked, but serving needs a node.id.
func (c Config) Shared() bool {
	if c.Node.ID != "" || len(c.Cluster.Peers) == 0 {
		return false
	}
	id, err := nodeID(c.Node)
	return err == nil && !slices.ContainsFunc(c.Cluster.Peers, func(item string) bool { return strings.HasPrefix(item, id+"=") })
}

// Ring is the cluster as the configuration lists it. It makes no connection.
func (c Config) Ring() (*membership.View, error) {
	if c.Shared() {
		return membership.StaticView(c.Cluster)
	}
	return c.ownRing()
}

// ownRing is the view of the node that has this configuration.
func (c Config) ownRing() (*membership.View, error) {
	id, err := nodeID(c.Node)
	if err != nil {
		return nil, err
	}
	return membership.OwnView(c.Cluster, membership.Member{
		ID: id, URL: cmp.Or(c.Node.Advertise, "http://"+c.Node.Listen), Weight: c.Cluster.Weight,
	})
}

// maxPoints bounds the points of one node on the ring. At 8 bytes each, and as
// many for every other node, more is surely a typing error.
const maxPoints = 1 << 20

func (c Config) validateSharedCluster() error {
	if !c.Shared() {
		return c.validateCluster()
	}
	_, err := c.Ring()
	return err
}

// validateOwnCluster is validateCluster for a node that serves.
func (c Config) validateOwnCluster() error {
	return firstOf(c.validateCluster(), c.CheckAddress())
}

func (c Config) validateCluster() error {
	if w, v := c.Cluster.Weight, c.Cluster.VirtualNodes; w > 0 && v > maxPoints/w {
		return check(false, "cluster.weight", "%d times cluster.virtual_nodes, %d, are more than %d points", w, v, maxPoints)
	}
	view, err := c.ownRing()
	if err != nil || c.Node.Advertise == "" || len(c.Cluster.Peers) == 0 {
		return err
	}
	id, err := nodeID(c.Node)
	if err != nil {
		return err
	}
	// The other nodes use their own lists: an address that only this node knows
	// would do nothing.
	listed := slices.ContainsFunc(view.Members, func(m membership.Member) bool {
		return m.ID == id && strings.EqualFold(m.URL, strings.TrimSuffix(c.Node.Advertise, "/"))
	})
	return check(listed, "node.advertise", "%q is not in cluster.peers, %q", c.Node.Advertise, c.Cluster.Peers)
}
