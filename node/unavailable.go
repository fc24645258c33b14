package node

import (
	"fmt"
	"strconv"
)

// validateUnavailable refuses known settings whose feature this version lacks.
// Accepting such a setting and doing nothing would break a promise in silence.
// Their defaults are accepted, so that a file with all settings works.
func (c Config) validateUnavailable() error {
	d := DefaultConfig()
	err := firstOf(
		unavailable(c.Node.PeerListen, "", "node.peer_listen"),
		unavailable(c.Node.AdminListen, "", "node.admin_listen"),
		check(c.Cluster.Discovery != "gossip" && c.Cluster.Discovery != "dns", "cluster.discovery",
			"%q is not available in this version, which has static", c.Cluster.Discovery),
		check(len(c.Cluster.Electors) == 0, "cluster.electors", "%q: electors are not available in this version", c.Cluster.Electors),
		unavailable(c.Cluster.Lease, d.Cluster.Lease, "cluster.lease"),
		unavailable(c.Cluster.Replicas, d.Cluster.Replicas, "cluster.replicas"),
		unavailable(c.Cache.HotShare, d.Cache.HotShare, "cache.hot_share"),
		unavailable(c.TLS.CertFile, "", "tls.cert_file"),
		unavailable(c.TLS.KeyFile, "", "tls.key_file"),
		unavailable(c.TLS.ClientCAFile, "", "tls.client_ca_file"),
		unavailable(c.Handoff.Rate, d.Handoff.Rate, "handoff.rate"),
	)
	if err != nil {
		return err
	}
	for i, g := range c.Groups {
		at := fmt.Sprintf("groups[%s].", itemName(g.Name, i))
		err := firstOf(
			unavailable(g.HotRate, d.Groups[0].HotRate, at+"hot_rate"),
			unavailable(g.Partition, d.Groups[0].Partition, at+"partition"),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func unavailable[T comparable](value, only T, field string) error {
	shown := fmt.Sprint(value)
	if text, ok := any(value).(string); ok {
		shown = strconv.Quote(text)
	}
	if fmt.Sprint(only) == "" {
		return check(value == only, field, "%s is not available in this version", shown)
	}
	return check(value == only, field, "%s is not available in this version, which only has %v", shown, only)
}

func itemName(name string, i int) string {
	if name == "" {
		return fmt.Sprint(i)
	}
	return name
}
