package config

import (
	"reflect"
	"slices"
	"strings"

	"kring/node"
)

// secrets are never shown. A variable …_FILE may name a file with the secret.
var secrets = []string{"cluster.secret", "pools[].headers[].value"}

func (f *field) secret() bool { return slices.Contains(secrets, f.path) }

// about is one line on each setting for `kring serve --help`.
var about = map[string]string{
	"node.id":                        "stable name on the ring; default: host name and port",
	"node.listen":                    "host:port of the client API, peer link, health and metrics; if not set, this node's address in cluster.peers",
	"node.advertise":                 "URL that other nodes use; default: http://<listen>",
	"node.peer_listen":               "not in this version: a listener of its own for the peer link",
	"node.admin_listen":              "not in this version: a listener of its own for operators' routes",
	"cluster.name":                   "nodes of another name are refused",
	"cluster.discovery":              "how nodes find each other: static",
	"cluster.peers":                  "all nodes, this one included: id=http://host:port,…",
	"cluster.electors":               "not in this version: who votes on the members",
	"cluster.lease":                  "not in this version: how soon silence counts",
	"cluster.replicas":               "not in this version: copies of each entry",
	"cluster.virtual_nodes":          "points on the ring per unit of weight",
	"cluster.weight":                 "this node's share of the ring, relative to the others'",
	"cluster.hash":                   "crc32, or crc32-plain to place keys as golang/groupcache does",
	"cluster.secret":                 "shared by all nodes; others can read flags, so prefer KRING_CLUSTER_SECRET_FILE",
	"cache.max_bytes":                "budget of everything cached",
	"cache.max_value_bytes":          "largest value that is stored",
	"cache.max_key_bytes":            "longest key",
	"cache.hot_share":                "not in this version: part of the budget for copies of hot keys",
	"cache.negative_share":           "part of the budget for keys that the origin does not have",
	"groups":                         "list of groups, as in the file",
	"pools":                          "list of pools, as in the file",
	"redis.addresses":                "Redis for pools with state: redis; several are nodes of a Redis Cluster",
	"redis.address":                  "short for one address",
	"redis.username":                 "Redis user",
	"redis.password_file":            "file with the Redis password, one line",
	"redis.db":                       "number of the Redis database",
	"redis.tls":                      "TLS to Redis",
	"redis.timeout":                  "longest wait for Redis before an endpoint is picked locally",
	"redis.key_prefix":               "prefix of all keys in Redis",
	"auth.tokens":                    "list of client tokens, as in the file",
	"auth.allowed_origin_hosts":      "hosts of endpoints added over HTTP: host, host:port, *.domain",
	"tls.cert_file":                  "not in this version: certificate (PEM)",
	"tls.key_file":                   "not in this version: private key (PEM)",
	"tls.client_ca_file":             "not in this version: CA certificates (PEM) of the other nodes",
	"limits.request_timeout":         "longest time for a client's request",
	"limits.max_connections":         "open client connections",
	"limits.connections_per_address": "open client connections from one address",
	"limits.requests_in_flight":      "requests being answered; more get a 503",
	"limits.max_waiters":             "requests that wait for a load; more get a 503",
	"limits.max_waiters_per_key":     "requests that wait for the load of one key; more get a 503",
	"limits.batch_keys":              "keys in one batch; more get a 413",
	"limits.response_bytes":          "memory of values and answers that wait for their readers: a size, or a share of cache.max_bytes (then at least 64MiB)",
	"limits.rate_per_token":          "requests a second of one token; 0 is no limit",
	"handoff.rate":                   "not in this version: bytes a second of moved entries",
	"handoff.drain_timeout":          "longest time from SIGTERM to exit",
	"log.level":                      "debug, info, warn or error",
	"log.format":                     "text or json",
}

// usage is the help text of a setting's flag, with the default.
func (f *field) usage() string {
	text := about[f.path]
	if value := f.render(lookup(reflect.ValueOf(node.DefaultConfig()), f.path)); value != `""` && value != "[]" && f.kind != kindItems {
		text += " (default " + value + ")"
	}
	return text
}

// lookup finds the value of a dotted name in a struct.
func lookup(v reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		byName := map[string]reflect.Value{}
		named(v, byName)
		v = byName[name]
	}
	return v
}
