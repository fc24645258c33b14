package node

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"kring/membership"
)

// CheckAddress refuses a node that listens elsewhere than at its URL in
// cluster.peers, where the others will call it. If the two differ on purpose,
// as behind a mapped port, node.advertise must say so. A Shared configuration
// passes: it is not the configuration of one node.
func (c Config) CheckAddress() error {
	if c.Node.Advertise != "" || len(c.Cluster.Peers) == 0 || c.Shared() {
		return nil
	}
	view, err := c.ownRing()
	if err != nil {
		return err
	}
	id, err := nodeID(c.Node)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(view.Members, func(m membership.Member) bool { return m.ID == id })
	if i < 0 {
		return nil // cluster.peers has been refused for that already
	}
	there := view.Members[i].URL
	return check(listensAt(c.Node.Listen, there), "node.listen",
		"%q is not the address that cluster.peers has for %s (%s): without node.listen the node listens there; if another address leads to it, set node.advertise to that URL",
		c.Node.Listen, id, there)
}

// ListedAddress is host:port of this node's URL in cluster.peers; "" if the
// list lacks the node.
func (c Config) ListedAddress() string {
	id, err := nodeID(c.Node)
	if err != nil {
		return ""
	}
	for _, item := range c.Cluster.Peers {
		rest, own := strings.CutPrefix(item, id+"=")
		if !own {
			continue
		}
		address, _, _ := strings.Cut(rest, ";")
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Hostname() == "" {
			return ""
		}
		moved := c.Node
		moved.Listen = u.Host
		// The id may contain the port.
		if _, _, err := splitAddress(u.Host); err == nil && sameID(moved, id) {
			return u.Host
		}
		return ""
	}
	return ""
}

func sameID(i Identity, id string) bool {
	own, err := nodeID(i)
	return err == nil && own == id
}

// listensAt reports whether a node that listens on address can be reached at
// the URL there, as far as this shows without resolving names.
func listensAt(address, there string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	u, err := url.Parse(there)
	if err != nil || u.Port() != strings.TrimLeft(port, "0") {
		return false
	}
	ip, other := addressOf(host), addressOf(u.Hostname())
	return host == "" || ip == nil || other == nil || ip.IsUnspecified() || ip.Equal(other) ||
		// All of 127.0.0.0/8 is this machine, and so is ::1.
		strings.EqualFold(u.Hostname(), "localhost") && ip.IsLoopback() || strings.EqualFold(host, "localhost") && other.IsLoopback()
}

// addressOf is the IP address of a host, or nil if the host is a name.
func addressOf(host string) net.IP {
	if strings.EqualFold(host, "localhost") {
		return net.IPv4(127, 0, 0, 1)
	}
	return net.ParseIP(host)
}
