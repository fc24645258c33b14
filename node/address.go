package node

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"kring/membership"
)

// CheckAddress refuses a node that listens elsewhere than the others will call
// it: they go by the URL in cluster.peers. Where the two are meant to differ, as
// behind a mapped port, node.advertise says so. A configuration that is Shared
// is of no node, and nothing is wrong with it.
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
		"%q is not what cluster.peers tells the others about %s (%s): without node.listen the node listens there; if another address leads to it, set node.advertise to that URL",
		c.Node.Listen, id, there)
}

// ListedAddress is host:port of the URL that cluster.peers has for this node;
// "" if there is none.
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
		// The id may be made of the port.
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

// listensAt reports whether who listens on an address can be reached at a URL,
// as far as that can be told without resolving names.
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

// addressOf is the address that a host is; nil if it is a name that would have
// to be resolved.
func addressOf(host string) net.IP {
	if strings.EqualFold(host, "localhost") {
		return net.IPv4(127, 0, 0, 1)
	}
	return net.ParseIP(host)
}
