package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kring/config"
)

// Each mistake is one line that names the place, the setting and the value.
func TestMistakes(t *testing.T) {
	const docs = `groups: [{name: docs, origin: {pool: docs, path: "/docs/{key}"}}]` + "\n"
	for _, row := range []struct{ name, text, want string }{
		// Names.
		{"a misspelt setting", "cache: {max_byte: 1MiB}", `cache.max_byte: unknown setting; did you mean cache.max_bytes?`},
		{"a misspelt section", "cahce: {max_bytes: 1MiB}", `cahce: unknown setting; did you mean cache?`},
		{"a misspelt section without values", "cahce:", `cahce: unknown setting; did you mean cache?`},
		{"a misspelt section with nothing in it", "cahce: {}", `cahce: unknown setting; did you mean cache?`},
		{"a section in another case", "Cache: {Max_Byte: {}}", `Cache: unknown setting; did you mean cache?`},
		{"a map as a list of groups", "groups: {kv: {}}", `groups.kv: groups has no settings below it`},
		{"nothing as a list", "auth: {tokens: {}}", `auth.tokens: {} is a section, not a value`},
		{"nothing as a setting", "cache: {max_bytes: {}}", `cache.max_bytes: {} is a section, not a value`},
		{"a setting in the wrong section", "node: {max_bytes: 1MiB}", `node.max_bytes: unknown setting; did you mean cache.max_bytes?`},
		{"a setting without section", "max_value_bytes: 1MiB", `max_value_bytes: unknown setting; did you mean cache.max_value_bytes?`},
		{"nothing like it", "cache: {colour: red}", `cache.colour: unknown setting`},
		{"misspelt in a group", "groups: [{name: a, tll: 5s}]", `groups[a].tll: unknown setting; did you mean groups[a].ttl?`},
		{"misspelt in a group's origin", "groups: [{name: a, origin: {pol: x}}]", `groups[a].origin.pol: unknown setting; did you mean groups[a].origin.pool?`},
		{"misspelt in a pool's health", "pools: [{name: p, health: {max_fail: 1}}]", `pools[p].health.max_fail: unknown setting; did you mean pools[p].health.max_fails?`},
		{"misspelt in an endpoint", "pools: [{name: p, endpoints: [{name: a, uri: x}]}]", `pools[p].endpoints[a].uri: unknown setting; did you mean pools[p].endpoints[a].url?`},
		{"below a setting", "cache: {max_bytes: {x: 1}}", `cache.max_bytes.x: cache.max_bytes has no settings below it`},

		// Kinds.
		{"no size", "cache: {max_bytes: 12XB}", `cache.max_bytes: "12XB" is not a size (try 256MiB, 64KiB or a number of bytes)`},
		{"an ambiguous size", "cache: {max_bytes: 12K}", `cache.max_bytes: "12K" is not a size (try 256MiB, 64KiB or a number of bytes)`},
		{"a size beyond all bounds", "cache: {max_bytes: 99999999TiB}", `cache.max_bytes: "99999999TiB" is not a size (try 256MiB, 64KiB or a number of bytes)`},
		{"part of a byte", "cache: {max_bytes: 1.5}", `cache.max_bytes: 1.5 is not a size (try 256MiB, 64KiB or a number of bytes)`},
		{"a duration without unit", "limits: {request_timeout: 30}", `limits.request_timeout: 30 is not a duration (try 250ms, 30s or 10m)`},
		{"no duration", "limits: {request_timeout: soon}", `limits.request_timeout: "soon" is not a duration (try 250ms, 30s or 10m)`},
		{"no share", "cache: {negative_share: lots}", `cache.negative_share: "lots" is not a share (try 10% or 0.1)`},
		{"not a number as a share", "cache: {negative_share: .nan}", `cache.negative_share: .nan is not a share (try 10% or 0.1)`},
		{"no number", "limits: {batch_keys: many}", `limits.batch_keys: "many" is not a whole number`},
		{"a number beyond all bounds", "limits: {batch_keys: 2147483648}", `limits.batch_keys: 2147483648 is beyond 2147483647`},
		{"neither size nor share", "limits: {response_bytes: much}", `limits.response_bytes: "much" is neither a size nor a share (try 64MiB or 25%)`},
		{"a share above all", "limits: {response_bytes: 101%}", `limits.response_bytes: "101%" is more than 100%`},
		{"a size of one byte", "limits: {response_bytes: 1}", `limits.response_bytes: 1 is neither a size nor a share (try 64MiB or 25%)`},
		{"too small a size", "limits: {response_bytes: 64KiB}", `limits.response_bytes: 65536 is neither a share above 0% nor a size from 1MiB on`},
		{"a share of nothing", "limits: {response_bytes: 0%}", `limits.response_bytes: 0 is neither a share above 0% nor a size from 1MiB on`},
		{"part of a number", "limits: {batch_keys: 1.5}", `limits.batch_keys: 1.5 is not a whole number`},
		{"no rate", "limits: {rate_per_token: fast}", `limits.rate_per_token: "fast" is not a number`},
		{"no bool", "groups: [{name: a, respect_cache_control: perhaps}]", `groups[a].respect_cache_control: "perhaps" is neither true nor false`},
		{"a number as a name", "node: {id: 7}", `node.id: 7 is not a text (put it in quotes)`},
		{"a number as a secret, which is not shown", "cluster: {secret: 424242}", `cluster.secret: the value is not a text (put it in quotes)`},
		{"a value as a section", "cache: 5", `cache: 5 is not a section of settings`},
		{"a value as a group's origin", "groups: [{name: a, origin: docs}]", `groups[a].origin: "docs" is not a section of settings`},
		{"a value as a list", "groups: docs", `groups: "docs" is not a YAML list`},
		{"a value as a group", "groups: [docs]", `groups[0]: "docs" is not a set of names and values`},
		{"a list of numbers", "cluster: {peers: [1]}", `cluster.peers: 1 is not a text (put it in quotes)`},
		{"a long value", "node: {id: {a: 1}}", `node.id.a: node.id has no settings below it`},

		// The file itself.
		{"no YAML", "a: b: c", `yaml: mapping values are not allowed in this context`},
		{"no settings", "- a", "[a] is not a set of names and values"},
		{"a setting twice", "log:\n  level: info\n  level: warn", `yaml: unmarshal errors: line 3: mapping key "level" already defined at line 2`},

		// Bad values.
		{"no address", "node: {listen: localhost}", `node.listen: "localhost" is not host:port (try 127.0.0.1:8001)`},
		{"no port", "node: {listen: 'localhost:http'}", `node.listen: "localhost:http": the port must be a number from 0 to 65535`},
		{"a port too high", "node: {listen: 'localhost:65536'}", `node.listen: "localhost:65536": the port must be a number from 0 to 65535`},
		{"no URL", "node: {advertise: kring-1}", `node.advertise: "kring-1" is not a URL of the form http://host:port`},
		{"open to strangers", "node: {listen: ':8001'}", `node.listen: ":8001" is open to other machines: set cluster.secret and auth.tokens (or start with --insecure)`},
		{"open to strangers, with a secret", "node: {listen: '10.0.0.1:8001'}\ncluster: {secret: s}", `node.listen: "10.0.0.1:8001" is open to other machines: set auth.tokens (or start with --insecure)`},
		{"a bad id", "node: {id: 'a b'}", `node.id: "a b": must be letters, digits and ._:- only, 1 to 128 of them`},
		{"0 virtual nodes", "cluster: {virtual_nodes: 0}", `cluster.virtual_nodes: 0: must be 1 to 65536`},
		{"a weight of 0", "cluster: {weight: 0}", `cluster.weight: 0: must be 1 to 1000`},
		{"a ring that fills the memory", "cluster: {weight: 1000, virtual_nodes: 65536}", `cluster.weight: 1000 times cluster.virtual_nodes, 65536, are more than 1048576 points`},
		{"an unknown hash", "cluster: {hash: md5}", `cluster.hash: "md5": must be crc32 or crc32-plain`},
		{"a secret of spaces", "cluster: {secret: '  '}", `cluster.secret: is nothing but white space`},
		{"a status that is no number", "pools: [{name: p, health: {fail_statuses: [502, busy]}}]", `pools[p].health.fail_statuses: "busy" is not a whole number`},
		{"one status", "pools: [{name: p, health: {fail_statuses: 503}}]", `pools[p].health.fail_statuses: 503 is not a list`},
		{"a status that is no error", "pools: [{name: p, health: {fail_statuses: [200]}}]", `pools[p].health.fail_statuses: 200: must be a status from 400 to 599`},
		{"a head that holds nothing", "pools: [{name: p, max_header_bytes: 10}]", `pools[p].max_header_bytes: 10: must be 1024 to 16777216 bytes`},
		{"a port that is none", "pools: [{name: p, endpoints: [{name: a, url: 'http://h:65536'}]}]", `pools[p].endpoints[a].url: "http://h:65536": the port must be a number from 1 to 65535`},
		{"port 0", "pools: [{name: p, endpoints: [{name: a, url: 'https://h:0'}]}]", `pools[p].endpoints[a].url: "https://h:0": the port must be a number from 1 to 65535`},
		{"an advertised port", "node: {advertise: 'http://h:65536'}", `node.advertise: "http://h:65536" is not a URL of the form http://host:port`},
		{"self missing", "node: {id: c}\ncluster: {peers: ['a=http://h:1']}", `cluster.peers: "a=http://h:1": this node's id c is missing; set node.id (--node-id) to the one that this node is`},
		{"an address of its own", "node: {id: a, advertise: 'http://h:2'}\ncluster: {peers: ['a=http://h:1']}", `node.advertise: "http://h:2" is not in cluster.peers, ["a=http://h:1"]`},
		{"a duplicate id", "node: {id: a}\ncluster: {peers: ['a=http://h:1', 'a=http://h:2']}", `cluster.peers: "a=http://h:2": the id a is there twice`},
		{"a bad peer", "node: {id: a}\ncluster: {peers: ['a=ftp://h:1']}", `cluster.peers: "a=ftp://h:1": bad URL "ftp://h:1": must be http://host:port`},
		{"no budget", "cache: {max_bytes: 0}", `cache.max_bytes: 0: must be more than 0`},
		{"a value larger than the budget", "cache: {max_bytes: 100KiB, max_value_bytes: 1MiB}", `cache.max_value_bytes: 1048576 is more than cache.max_bytes, 102400`},
		{"a negative size", "cache: {max_value_bytes: -1}", `cache.max_value_bytes: -1: must be more than 0`},
		{"a share above 1", "cache: {negative_share: 101%}", `cache.negative_share: 1.01: must be at least 0 and less than 1`},
		{"no groups", "groups: []", `groups: []: there must be at least one`},
		{"a bad group name", "groups: [{name: Docs}]", `groups: name "Docs": must be 1 to 63 of a-z, 0-9, _ and -, not beginning with _ or -`},
		{"a group twice", "groups: [{name: a}, {name: a}]", `groups[a].name: "a" is there twice`},
		{"a negative ttl", "groups: [{name: a, ttl: -1s}]", `groups[a].ttl: -1s: must not be negative`},
		{"too much jitter", "groups: [{name: a, jitter: 150%}]", `groups[a].jitter: 1.5: must be at least 0 and less than 1`},
		{"no time to load", "groups: [{name: a, load_timeout: 0s}]", `groups[a].load_timeout: 0s must be more than 0`},
		{"an unknown pool", docs, `groups[docs].origin.pool: "docs" is not in the list pools`},
		{"half an origin", "groups: [{name: a, origin: {pool: p}}]", `groups[a].origin: {pool: "p", path: ""}: needs both or neither`},
		{"a path without key", "groups: [{name: a, origin: {pool: p, path: /x}}]\npools: [{name: p}]", `groups[a].origin.path: path "/x": must have {key} or {+key} in it, once`},
		{"a bad pattern", "groups: [{name: a, key_pattern: '('}]", "groups[a].key_pattern: (: error parsing regexp: missing closing ): `(`"},
		{"a pool twice", "pools: [{name: p}, {name: p}]", `pools[p].name: "p" is there twice`},
		{"a pool without name", "pools: [{policy: weighted}]", `pools[0].name: "" must be set`},
		{"an unknown policy", "pools: [{name: p, policy: random}]", `pools[p].policy: "random": unknown, choose one of least_assigned, least_in_flight, round_robin, smooth_weighted, weighted`},
		{"an endpoint twice", "pools: [{name: p, endpoints: [{name: a, url: 'http://h'}, {name: a, url: 'http://h'}]}]", `pools[p].endpoints: a: there are two endpoints of this name`},
		{"a bad endpoint", "pools: [{name: p, endpoints: [{name: a, url: h}]}]", `pools[p].endpoints[a].url: "h": must begin with http:// or https://`},
		{"probes without a pause", "pools: [{name: p, health: {probe: /up, probe_interval: 1ns}}]", `pools[p].health.probe_interval: 1ns: must be 100ms to 24h`},
		{"trials without a pause", "pools: [{name: p, health: {fail_timeout: 1ns}}]", `pools[p].health.fail_timeout: 1ns: must be 100ms to 24h`},
		{"a negative weight", "pools: [{name: p, endpoints: [{name: a, url: 'http://h', weight: -1}]}]", `pools[p].endpoints[a].weight: -1: must be a whole number from 0 to 2147483647`},
		{"no loads", "pools: [{name: p, max_loads: 0}]", `pools[p].max_loads: 0: must be at least 1`},
		{"a bad header", "pools: [{name: p, headers: [{name: 'a b', value: x}]}]", `pools[p].headers[0].name: "a b": is not a header's name`},
		{"a token without file", "auth: {tokens: [{name: a, role: read}]}", `auth.tokens[a].token_file: "" must name a file`},
		{"an unknown role", "auth: {tokens: [{name: a, token_file: f, role: root}]}", `auth.tokens[a].role: "root" must be read, write or admin`},
		{"a token for no group", "auth: {tokens: [{name: a, token_file: f, role: read, groups: [x]}]}", `auth.tokens[a].groups: "x" is not in the list groups`},
		{"a token twice", "auth: {tokens: [{name: a, token_file: f, role: read}, {name: a, token_file: f, role: read}]}", `auth.tokens[a].name: "a" is there twice`},
		{"no requests", "limits: {requests_in_flight: 0}", `limits.requests_in_flight: 0 must be more than 0`},
		{"no time to drain", "handoff: {drain_timeout: 0s}", `handoff.drain_timeout: 0s must be more than 0`},
		{"an unknown level", "log: {level: loud}", `log.level: "loud" must be debug, info, warn or error`},
		{"an unknown format", "log: {format: xml}", `log.format: "xml" must be text or json`},

		// Settings of other versions.
		{"gossip", "cluster: {discovery: gossip}", `cluster.discovery: "gossip" is not available in this version, which has static`},
		{"an unknown discovery", "cluster: {discovery: magic}", `cluster.discovery: "magic": only static is known`},
		{"replicas", "cluster: {replicas: 2}", `cluster.replicas: 2 is not available in this version, which only has 1`},
		{"electors", "cluster: {electors: ['h:1']}", `cluster.electors: ["h:1"]: electors are not available in this version`},
		{"a lease", "cluster: {lease: 2s}", `cluster.lease: 2s is not available in this version, which only has 1s`},
		{"a listener for peers", "node: {peer_listen: '127.0.0.1:1'}", `node.peer_listen: "127.0.0.1:1" is not available in this version`},
		{"no Redis address", "redis: {address: h}", `redis.address: "h": must be host:port`},
		{"Redis twice", "redis: {address: 'h:1', addresses: ['h:2']}", `redis.address: "h:1": is short for addresses: set one of the two`},
		{"no patience with Redis", "redis: {timeout: 1ms}", `redis.timeout: 1ms: must be 5ms to 10s`},
		{"braces in keys", "redis: {key_prefix: '{a}'}", `redis.key_prefix: "{a}": must not have braces, which Redis Cluster reads in keys`},
		{"TLS", "tls: {cert_file: /c}", `tls.cert_file: "/c" is not available in this version`},
		{"hosts of endpoints", "auth: {allowed_origin_hosts: ['a/b']}", `auth.allowed_origin_hosts: "a/b": must be a host, host:port or *.domain`},
		{"a partition policy", "groups: [{name: a, partition: refuse}]", `groups[a].partition: "refuse" is not available in this version, which only has serve`},
		{"hot keys", "groups: [{name: a, hot_rate: 5}]", `groups[a].hot_rate: 5 is not available in this version, which only has 100`},
		{"state that cannot be shared", "pools: [{name: p, state: redis}]", `pools[p].state: redis: the policy smooth_weighted has only local state; least_assigned and least_in_flight can be shared`},
		{"nowhere to share state", "pools: [{name: p, policy: least_assigned, state: redis}]", `pools[p].state: redis needs redis.addresses, which is empty`},
		{"a short lease", "pools: [{name: p, lease: 1ms}]", `pools[p].lease: 1ms: must be at least 500ms`},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := write(t, row.text)
			l, err := config.Load(file, nil)
			if err == nil {
				t.Fatalf("accepted: %+v", l.Config)
			}
			if want := file + ": " + row.want; err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
		})
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Run("a flag", func(t *testing.T) {
		_, err := config.Load("", flags(t, "--cache-max-bytes", "0"))
		wantError(t, err, `--cache-max-bytes: cache.max_bytes: 0: must be more than 0`)
	})
	t.Run("a variable", func(t *testing.T) {
		t.Setenv("KRING_CACHE_MAX_BYTES", "0")
		_, err := config.Load("", nil)
		wantError(t, err, `KRING_CACHE_MAX_BYTES: cache.max_bytes: 0: must be more than 0`)
	})
	t.Run("a list in a variable", func(t *testing.T) {
		t.Setenv("KRING_GROUPS", "[{name: a, ttl: -1s}]")
		_, err := config.Load("", nil)
		wantError(t, err, `KRING_GROUPS: groups[a].ttl: -1s: must not be negative`)
	})
	t.Run("no list in a variable", func(t *testing.T) {
		t.Setenv("KRING_GROUPS", "[{name: a")
		_, err := config.Load("", nil)
		if err == nil || !strings.HasPrefix(err.Error(), `KRING_GROUPS: groups: "[{name: a" is not a YAML list: `) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a misspelt variable", func(t *testing.T) {
		t.Setenv("KRING_CLUSTER_VIRTUALNODES", "5")
		_, err := config.Load("", nil)
		wantError(t, err, `KRING_CLUSTER_VIRTUALNODES: unknown setting; did you mean KRING_CLUSTER_VIRTUAL_NODES?`)
	})
	for name, want := range map[string]string{
		"KRING_LISTEN":                  "unknown setting; did you mean KRING_NODE_LISTEN?",
		"KRING_PORT":                    "unknown setting; did you mean KRING_NODE_LISTEN?",
		"KRING_PEERS":                   "unknown setting; did you mean KRING_CLUSTER_PEERS?",
		"KRING_SECRET_FILE":             "unknown setting; did you mean KRING_CLUSTER_SECRET_FILE?",
		"KRING_MAX_BYTES":               "unknown setting; did you mean KRING_CACHE_MAX_BYTES?",
		"KRING_CLUSTER_SERCET":          "unknown setting; did you mean KRING_CLUSTER_SECRET?",
		"KRING_CLUSTER_SERVICE_ACCOUNT": "unknown setting",
		"KRING_CONFIG":                  "unknown setting; name the file with --config",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "8001")
			_, err := config.Load("", nil)
			wantError(t, err, name+": "+want)
		})
	}
	t.Run("a variable of another program", func(t *testing.T) {
		t.Setenv("KRING_ENVIRONMENT", "staging")
		if _, err := config.Load("", nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("an empty secret", func(t *testing.T) {
		if err := os.WriteFile("secret", []byte("\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KRING_CLUSTER_SECRET_FILE", "secret")
		_, err := config.Load("", nil)
		wantError(t, err, `KRING_CLUSTER_SECRET_FILE: cluster.secret: "secret" is empty`)
	})
	t.Run("a directory", func(t *testing.T) {
		_, err := config.Load(".", nil)
		wantError(t, err, `.: read .: is a directory`)
	})
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// FuzzLoad: for every file, Load returns a configuration that prints and loads
// again as itself, or an error of one line.
func FuzzLoad(f *testing.F) {
	sample, err := os.ReadFile("../config.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sample))
	for _, text := range []string{
		"", "a", "- a", "a: b: c", "cache:\n", "cache: {max_bytes: 12XB}", "groups: [{name: a, ttl: 5s}]", "groups: [{1: 2}]",
		"pools: [{name: p, endpoints: [{name: a, url: 'http://h'}]}]", "node: &a {id: x}\ncluster: *a", "<<: {node: {id: x}}", "node: !!binary aGk=",
		"cache.max_bytes: 1MiB", "CACHE: {MAX_BYTES: 2MiB}", "node: {id: \"\\u0000\"}", "log: {level: 2020-01-01}", "cluster: {peers: 'a=http://h:1'}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := config.Load(write(t, text), nil)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("more than one line: %q", err)
			}
			return
		}
		var printed strings.Builder
		if err := l.Print(&printed); err != nil {
			t.Fatal(err)
		}
		again, err := config.Load(write(t, strings.ReplaceAll(printed.String(), `"********"`, `"s"`)), nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, printed.String())
		}
		for _, path := range config.Changed(l, again) {
			if path != "cluster.secret" && !strings.HasSuffix(path, ".value") {
				t.Fatalf("%s changed in\n%s", path, printed.String())
			}
		}
	})
}

// Each setting has a flag with a help text of its own.
func TestEverySettingHasAFlag(t *testing.T) {
	l := load(t, write(t, ""))
	fs := flags(t)
	for _, s := range l.Settings() {
		if strings.Contains(s.Path, "[") {
			continue
		}
		name := strings.NewReplacer(".", "-", "_", "-").Replace(s.Path)
		if fs.Lookup(name) == nil {
			t.Errorf("%s has no flag --%s", s.Path, name)
		}
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" || strings.HasPrefix(f.Usage, " ") {
			t.Errorf("--%s has no help text", f.Name)
		}
	})
}

// A suggestion is at most three typing errors away and shares most letters with
// the input.
func TestSuggest(t *testing.T) {
	for _, c := range []struct {
		written, name string
		meant         bool
	}{
		{"tl", "ttl", true},
		{"uri", "url", true},
		{"hit", "ttl", false}, // two of three letters differ
		{"pa", "path", false}, // half of it is missing
		{"mxbyts", "max_bytes", true},
		{"mxbyt", "max_bytes", false}, // four errors
	} {
		if got := config.Suggest(c.written, []string{c.name}); (got != "") != c.meant {
			t.Errorf("%s for %s: %q", c.written, c.name, got)
		}
	}
}
