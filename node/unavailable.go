package node

import (
	"fmt"
	"slices"
	"strconv"
)

// validateUnavailable refuses settings of the configuration's contract whose
// feature this version lacks: to accept one and do nothing would be a promise
// broken in silence. Their defaults are accepted, so that a file that spells
// out all settings works.
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
		check(len(c.Redis.Addresses) == 0, "redis.addresses", "%q: Redis is not available in this version", c.Redis.Addresses),
		unavailable(c.Redis.Address, "", "redis.address"),
		unavailable(c.Redis.Username, "", "redis.username"),
		unavailable(c.Redis.PasswordFile, "", "redis.password_file"),
		unavailable(c.Redis.DB, 0, "redis.db"),
		unavailable(c.Redis.TLS, false, "redis.tls"),
		unavailable(c.Redis.Timeout, d.Redis.Timeout, "redis.timeout"),
		unavailable(c.Redis.KeyPrefix, d.Redis.KeyPrefix, "redis.key_prefix"),
		check(len(c.Auth.AllowedOriginHosts) == 0, "auth.allowed_origin_hosts",
			"%q: endpoints added over HTTP are not available in this version", c.Auth.AllowedOriginHosts),
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
	return c.validateUnavailablePools()
}

func (c Config) validateUnavailablePools() error {
	d := DefaultPoolConfig()
	for i, p := range c.Pools {
		at := fmt.Sprintf("pools[%s].", itemName(p.Name, i))
		later := []string{"least_assigned", "least_in_flight"}
		err := firstOf(
			check(!slices.Contains(later, p.Policy), at+"policy",
				"%q is not available in this version, which has round_robin, weighted and smooth_weighted", p.Policy),
			check(p.State != "redis", at+"state", "%q is not available in this version, which has local", p.State),
			unavailable(p.Lease, d.Lease, at+"lease"),
			unavailable(p.SlowStart, d.SlowStart, at+"slow_start"),
			unavailable(p.KeepCount, d.KeepCount, at+"keep_count"),
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
