package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"kring/cache"
	"kring/config"
	"kring/node"
)

func TestNoConfigurationMeansDefaults(t *testing.T) {
	t.Chdir(t.TempDir())
	l := load(t, "")
	if diff := cmp.Diff(node.DefaultConfig(), l.Config); diff != "" {
		t.Errorf("not the defaults:\n%s", diff)
	}
	if l.File != "" || len(l.Sources) != 0 {
		t.Errorf("file %q, sources %v", l.File, l.Sources)
	}
}

// The sample file shows the defaults, and this keeps it in step with the code.
func TestSampleFileIsTheDefaults(t *testing.T) {
	l := load(t, "../config.yaml")
	if diff := cmp.Diff(node.DefaultConfig(), l.Config); diff != "" {
		t.Errorf("config.yaml differs from the defaults:\n%s", diff)
	}
	for _, s := range l.Settings() {
		if s.Source == "default" && !strings.HasPrefix(s.Path, "groups[kv].origin.") && s.Path != "groups[kv].name" && s.Value != "[]" {
			t.Errorf("config.yaml does not show %s", s.Path)
		}
	}
}

// The commented part of the sample must work, and must show the defaults of
// groups with an origin and of pools.
func TestSampleFileExample(t *testing.T) {
	text, err := os.ReadFile("../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile(`(?m)^#(  )`).ReplaceAllString(string(text), "$1") // comments have one space
	example = strings.Replace(example, "pools: []", "pools:", 1)
	l := load(t, write(t, example))
	want := node.DefaultConfig()
	docs := cache.DefaultGroupConfig("docs")
	docs.Origin = cache.OriginConfig{Pool: "docs", Path: "/docs/{key}"}
	want.Groups = append(want.Groups, docs)
	pool := node.DefaultPoolConfig()
	pool.Name = "docs"
	pool.Endpoints = append(pool.Endpoints, l.Config.Pools[0].Endpoints...)
	want.Pools = []node.PoolConfig{pool}
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Errorf("the example differs from the defaults:\n%s", diff)
	}
}

func TestEverySettingIsUnderstood(t *testing.T) {
	l := load(t, write(t, `
node: {id: n-1, listen: "127.0.0.1:9001", advertise: "http://localhost:9001"}
cluster: {name: test, peers: ["n-1=http://localhost:9001", "n-2=http://localhost:9002"], virtual_nodes: 160, hash: crc32-plain, secret: "s"}
cache: {max_bytes: 1GiB, max_value_bytes: 1.5MB, max_key_bytes: 100, negative_share: 0.5}
groups:
  - {name: a, origin: {pool: p, path: "/x/{+key}"}, jitter: 0, stale_if_error: 0, negative_ttl: 1h, respect_cache_control: false, load_timeout: 1500ms}
  - {name: b, ttl: 5s}
pools:
  - name: p
    policy: weighted
    max_loads: 3
    max_body_bytes: 2000
    max_ejected: 0.25
    retry_budget: "0%"
    headers: [{name: Host, value: docs.example}]
    max_header_bytes: 1MiB
    max_connection_age: 0
    health: {max_fails: 1, probe: /up, fail_statuses: [500, "429"]}
    endpoints: [{name: one, url: "http://h:1"}, {name: two, url: "https://h:2", weight: 0}]
  - {name: q, health: {fail_statuses: []}}
  - {name: r}
auth: {tokens: [{name: ops, token_file: /t, role: admin, groups: [a, b]}]}
limits: {request_timeout: 1s, rate_per_token: 2.5}
log: {level: debug, format: json}
`))
	c := l.Config
	a, p := c.Groups[0], c.Pools[0]
	for _, row := range []struct {
		name      string
		got, want any
	}{
		{"node", c.Node, node.Identity{ID: "n-1", Listen: "127.0.0.1:9001", Advertise: "http://localhost:9001"}},
		{"peers", strings.Join(c.Cluster.Peers, " "), "n-1=http://localhost:9001 n-2=http://localhost:9002"},
		{"virtual nodes", c.Cluster.VirtualNodes, 160},
		{"max_bytes", c.Cache.MaxBytes, int64(1 << 30)},
		{"max_value_bytes", c.Cache.MaxValueBytes, int64(1_500_000)},
		{"negative_share", c.Cache.NegativeShare, 0.5},
		{"groups[a].ttl, the default with an origin", a.TTL, time.Minute},
		{"groups[a].jitter", a.Jitter, 0.0},
		{"groups[a].stale_if_error", a.StaleIfError, time.Duration(0)},
		{"groups[a].stale_while_revalidate, a default", a.StaleWhileRevalidate, 30 * time.Second},
		{"groups[a].negative_ttl", a.NegativeTTL, time.Hour},
		{"groups[a].respect_cache_control", a.RespectCacheControl, false},
		{"groups[a].load_timeout", a.LoadTimeout, 1500 * time.Millisecond},
		{"groups[b].ttl", c.Groups[1].TTL, 5 * time.Second},
		{"pools[p].policy", p.Policy, "weighted"},
		{"pools[p].max_body_bytes", p.Origin.MaxBodyBytes, int64(2000)},
		{"pools[p].max_ejected", p.MaxEjected, 0.25},
		{"pools[p].retry_budget", p.Origin.RetryBudget, 0.0},
		{"pools[p].headers", p.Origin.Headers[0].Value, "docs.example"},
		{"pools[p].health.max_fails", p.Health.MaxFails, 1},
		{"pools[p].max_header_bytes", p.Origin.MaxHeaderBytes, int64(1 << 20)},
		{"pools[r].max_header_bytes, a default", c.Pools[2].Origin.MaxHeaderBytes, int64(256 << 10)},
		{"pools[p].max_connection_age", p.Origin.MaxConnectionAge, time.Duration(0)},
		{"pools[r].max_connection_age, a default", c.Pools[2].Origin.MaxConnectionAge, 5 * time.Minute},
		{"pools[p].health.fail_statuses", p.Health.FailStatuses, []int{500, 429}},
		{"pools[q].health.fail_statuses, none", len(c.Pools[1].Health.FailStatuses), 0},
		{"pools[r].health.fail_statuses, a default", c.Pools[2].Health.FailStatuses, []int{502, 503, 504}},
		{"pools[p].health.fail_timeout, a default", p.Health.FailTimeout, 10 * time.Second},
		{"endpoint one's weight, a default", p.Endpoints[0].Weight, 1},
		{"endpoint two's weight", p.Endpoints[1].Weight, 0},
		{"token's groups", strings.Join(c.Auth.Tokens[0].Groups, " "), "a b"},
		{"request_timeout", c.Limits.RequestTimeout, time.Second},
		{"max_connections, a default", c.Limits.MaxConnections, 10000},
		{"rate_per_token", c.Limits.RatePerToken, 2.5},
		{"log", c.Log, node.LogConfig{Level: "debug", Format: "json"}},
	} {
		if diff := cmp.Diff(row.want, row.got); diff != "" {
			t.Errorf("%s:\n%s", row.name, diff)
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := write(t, "node: {id: from-file}\ncache: {max_bytes: 2MiB}\nlog: {level: warn}\n")
	for _, row := range []struct {
		name  string
		env   string
		flags []string
		id    string
		from  string
	}{
		{"file", "", nil, "from-file", "file " + file},
		{"environment over file", "from-env", nil, "from-env", "environment KRING_NODE_ID"},
		{"flag over environment", "from-env", []string{"--node-id=from-flag"}, "from-flag", "flag --node-id"},
		{"flag over file", "", []string{"--node-id", "from-flag"}, "from-flag", "flag --node-id"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Setenv("KRING_NODE_ID", row.env)
			l := load(t, file, row.flags...)
			if l.Config.Node.ID != row.id || l.Sources["node.id"] != row.from {
				t.Errorf("got %q from %q", l.Config.Node.ID, l.Sources["node.id"])
			}
			if l.Config.Cache.MaxBytes != 2<<20 || l.Config.Log.Level != "warn" || l.Config.Node.Listen != "127.0.0.1:8001" {
				t.Errorf("other settings changed: %+v", l.Config)
			}
		})
	}
}

func TestEnvironmentAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("open sesame\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"KRING_NODE_ID":                 "b",
		"KRING_CLUSTER_PEERS":           "a=http://127.0.0.1:8002, b=http://127.0.0.1:8001",
		"KRING_CLUSTER_SECRET_FILE":     secret,
		"KRING_CACHE_MAX_BYTES":         "1048577",
		"KRING_CACHE_MAX_VALUE_BYTES":   "64KiB",
		"KRING_LIMITS_REQUEST_TIMEOUT":  "5s",
		"KRING_LIMITS_BATCH_KEYS":       "7",
		"KRING_GROUPS":                  "[{name: docs, origin: {pool: p, path: '/docs/{key}'}}]",
		"KRING_POOLS":                   "- name: p\n  endpoints: [{name: a, url: 'http://127.0.0.1:1'}]",
		"KRING_NODE_SERVICE_HOST":       "10.0.0.1", // set by Kubernetes
		"KRING_NODE_PORT_8001_TCP_ADDR": "10.0.0.1",
		"KRING_SERVICE_HOST":            "10.0.0.1", // set for a Service named kring
		"KRING_SERVICE_PORT_HTTP":       "8001",
		"KRING_PORT":                    "tcp://10.0.0.1:8001",
		"KRING_PORT_8001_TCP":           "tcp://10.0.0.1:8001",
		"KRING_PORT_8001_TCP_PROTO":     "tcp",
		"KRING_LEADER_PORT":             "tcp://10.0.0.2:8001",
		"KRING_BASE_PORT":               "9001", // read by scripts
		"KRING_TOKEN":                   "t",    // read by commands that call a node
		"KRING_CACHE_NEGATIVE_SHARE":    "5%",
		"KRING_CLUSTER_DISCOVERY":       "", // empty counts as unset
	} {
		t.Setenv(name, value)
	}
	c := load(t, "").Config
	if got := strings.Join(c.Cluster.Peers, " "); got != "a=http://127.0.0.1:8002 b=http://127.0.0.1:8001" {
		t.Errorf("peers %q", got)
	}
	if c.Cluster.Secret != "open sesame" || c.Cache.MaxBytes != 1048577 || c.Cache.MaxValueBytes != 64<<10 || c.Cache.NegativeShare != 0.05 {
		t.Errorf("got %+v", c.Cache)
	}
	if c.Limits.RequestTimeout != 5*time.Second || c.Limits.BatchKeys != 7 {
		t.Errorf("limits %+v", c.Limits)
	}
	if len(c.Groups) != 1 || c.Groups[0].Origin.Pool != "p" || c.Groups[0].TTL != time.Minute || len(c.Pools) != 1 || c.Pools[0].Endpoints[0].Weight != 1 {
		t.Errorf("groups %+v, pools %+v", c.Groups, c.Pools)
	}
}

func TestFileInThisDirectoryIsFound(t *testing.T) {
	t.Chdir(filepath.Dir(write(t, "node: {id: here}")))
	if l := load(t, ""); l.File != "config.yaml" || l.Config.Node.ID != "here" || l.Sources["node.id"] != "file config.yaml" {
		t.Errorf("file %q, id %q, sources %v", l.File, l.Config.Node.ID, l.Sources)
	}
}

func TestEmptySectionsAreDefaults(t *testing.T) {
	l := load(t, write(t, "node:\n  # nothing\ncache: {}\ngroups:\nlog:\n  level:\n"))
	if diff := cmp.Diff(node.DefaultConfig(), l.Config); diff != "" {
		t.Errorf("not the defaults:\n%s", diff)
	}
}

// A container listens on all addresses, and the list has its name.
func TestContainerOfACluster(t *testing.T) {
	l := load(t, write(t, `
node: {id: a, listen: ":8001"}
cluster: {secret: s, peers: ["a=http://a:8001", "b=http://b:8001;weight=2"]}
auth: {tokens: [{name: ops, token_file: /t, role: admin}]}
`))
	if l.Insecure || l.Config.Node.Listen != ":8001" {
		t.Errorf("got %+v", l)
	}
}

func TestSmallBudgetAlone(t *testing.T) {
	l := load(t, write(t, "cache: {max_bytes: 100KiB}"))
	if got := l.Config.Cache.MaxValueBytes; got != 100<<10 {
		t.Errorf("max_value_bytes is %d", got)
	}
}

func TestPrintedConfigurationLoadsAgain(t *testing.T) {
	file := write(t, `
node: {id: "yes"}
cache: {max_bytes: 100000001, negative_share: 0.123456789}
groups: [{name: a, key_pattern: "^[a-z]+\\.\"x\"$", ttl: 90m}, {name: b, origin: {pool: p, path: "/{key}"}}]
pools: [{name: p, headers: [{name: A, value_file: /x}], health: {fail_statuses: [503, 404]}, endpoints: [{name: e, url: "http://h"}, {name: f, url: "http://h:2"}]}]
`)
	l := load(t, file, "--log-level=debug")
	var text strings.Builder
	if err := l.Print(&text); err != nil {
		t.Fatal(err)
	}
	again := load(t, write(t, text.String()))
	if diff := cmp.Diff(l.Config, again.Config); diff != "" {
		t.Errorf("printed and loaded again:\n%s\n%s", diff, text.String())
	}
	for _, want := range []string{
		"level: debug # flag --log-level", "ttl: 1h30m # file " + file, "negative_share: 0.123456789 # file " + file, "load_timeout: 10s # default",
	} {
		if flat := regexp.MustCompile(` +`).ReplaceAllString(text.String(), " "); !strings.Contains(flat, want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if changed := config.Changed(l, again); len(changed) != 0 {
		t.Errorf("changed: %v", changed)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	l := load(t, write(t, `
cluster: {secret: "open sesame"}
pools: [{name: p, headers: [{name: Authorization, value: "Bearer open sesame"}]}]
`))
	var text strings.Builder
	if err := l.Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.Settings() {
		text.WriteString(s.Value)
	}
	if got := text.String(); strings.Contains(got, "sesame") || strings.Count(got, `"********"`) != 4 {
		t.Errorf("printed:\n%s", got)
	}
}

func TestChangedNamesSettings(t *testing.T) {
	a := load(t, write(t, "log: {level: info}\ncluster: {secret: one}\ngroups: [{name: a}, {name: b}]"))
	b := load(t, write(t, "log: {level: warn}\ncluster: {secret: two}\ngroups: [{name: a, ttl: 1s}, {name: b}]"))
	if diff := cmp.Diff([]string{"cluster.secret", "groups[a].ttl", "log.level"}, config.Changed(a, b)); diff != "" {
		t.Error(diff)
	}
}

func TestInsecureIsAFlag(t *testing.T) {
	file := write(t, "node: {listen: '0.0.0.0:8001'}")
	if l := load(t, file, "--insecure"); !l.Insecure {
		t.Error("the flag is not reported")
	}
	if _, err := config.Load(file, flags(t)); err == nil || !strings.Contains(err.Error(), "node.listen") {
		t.Errorf("without the flag: %v", err)
	}
}

func load(t *testing.T, file string, args ...string) *config.Loaded {
	t.Helper()
	l, err := config.Load(file, flags(t, args...))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
