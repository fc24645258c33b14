package config_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kring/config"
	"kring/node"
)

// A spelling of a value has the same result in a file, in quotes in a file, in
// a variable and as a flag.
func TestASpellingMeansTheSameInAllSources(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, setting := range []struct {
		name   string
		value  func(c node.Config) any
		valid  map[string]any
		refuse []string
	}{
		{
			"limits.batch_keys", func(c node.Config) any { return c.Limits.BatchKeys },
			map[string]any{"12": 12, "1000": 1000, "+7": 7},
			[]string{"0x10", "0o10", "0b11", "010", "007", "1_000", "1,000", "1e3", "1e2", "12.0", "1.5", "-5", "many", "true", "12B", "99999999999999999999", ".inf", "٣"},
		},
		{
			"cache.max_bytes", func(c node.Config) any { return c.Cache.MaxBytes },
			map[string]any{"70000": int64(70000), "1e6": int64(1e6), "64KiB": int64(64 << 10), "64 KiB": int64(64 << 10), "1.5MiB": int64(3 << 19), "1MB": int64(1e6), "100kB": int64(1e5), "0.5GiB": int64(1 << 29), ".5GiB": int64(1 << 29), "70000B": int64(70000)},
			[]string{"0x100000", "0x10MiB", "0200000", "010MiB", "1_000_000", "1e6.0", "100000.5", "64K", "64M", "64kib", "64", "-64MiB", "MiB", "1e400", ".nan", "64MiB MiB", "1MiB2"},
		},
		{
			"cache.negative_share", func(c node.Config) any { return c.Cache.NegativeShare },
			map[string]any{"0": 0.0, "0.5": 0.5, ".5": 0.5, "50%": 0.5, "12.5%": 0.125, "5e-1": 0.5, "0.25": 0.25, "25 %": 0.25},
			[]string{"0x1p-2", "00.5", "05%", "0,5", "1_0%", "1.", "5e-1%%", "%", "0.5.1", ".inf", "NaN", "half", "2", "200%"},
		},
		{
			"limits.rate_per_token", func(c node.Config) any { return c.Limits.RatePerToken },
			map[string]any{"0": 0.0, "2.5": 2.5, "1e3": 1000.0, "1000": 1000.0, ".5": 0.5},
			[]string{"0x10", "010", "1_000", "1e999", "5/s", ".nan", "-1", "Inf", "1e"},
		},
		{
			"limits.request_timeout", func(c node.Config) any { return c.Limits.RequestTimeout },
			map[string]any{"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "1.5s": 1500 * time.Millisecond, ".5s": 500 * time.Millisecond, "250ms": 250 * time.Millisecond},
			[]string{"30", "1e3", "0x10", "1_000ms", "30 s", "1d", "-1s", "s", "1:30", "0", "soon"},
		},
		{
			"groups", func(c node.Config) any { return c.Groups[0].TTL },
			map[string]any{"[{name: g, ttl: 5s}]": 5 * time.Second, "[{name: g, ttl: '5s'}]": 5 * time.Second, "[{name: g, ttl: 0}]": time.Duration(0)},
			[]string{"[{name: g, ttl: 5}]", "[{name: g, TTL: 5s}]", "[{name: g, ttl: 5s, TTL: 6s}]", "[{name: g, ttl: 0x10}]", "[{name: g, 1: x}]", "[{name: g, jitter: 0x1p-2}]"},
		},
		{
			"redis.tls", func(c node.Config) any { return c.Redis.TLS },
			map[string]any{"true": true, "false": false, "1": true, "TRUE": true},
			[]string{"yes", "on", "2", "01", "1.0", "maybe"},
		},
	} {
		section, name, _ := strings.Cut(setting.name, ".")
		file := section + ": {" + name + ": %s}"
		if name == "" {
			file = section + ": %s"
		}
		variable := "KRING_" + strings.ToUpper(strings.ReplaceAll(setting.name, ".", "_"))
		flag := strings.NewReplacer(".", "-", "_", "-").Replace(setting.name)
		// The four ways to set a value.
		ways := func(t *testing.T, text string) map[string]func() (*config.Loaded, error) {
			bare, quoted := write(t, fmt.Sprintf(file, text)), write(t, fmt.Sprintf(file, `"`+text+`"`))
			return map[string]func() (*config.Loaded, error){
				"file":            func() (*config.Loaded, error) { return config.Load(bare, nil) },
				"file, in quotes": func() (*config.Loaded, error) { return config.Load(quoted, nil) },
				"flag":            func() (*config.Loaded, error) { return config.Load("", flags(t, "--"+flag+"="+text)) },
				"variable": func() (*config.Loaded, error) {
					t.Setenv(variable, text)
					defer os.Unsetenv(variable)
					return config.Load("", nil)
				},
			}
		}
		for text, want := range setting.valid {
			t.Run(setting.name+": "+text, func(t *testing.T) {
				for way, load := range ways(t, text) {
					l, err := load()
					if err != nil {
						t.Errorf("%s: %v", way, err)
					} else if got := setting.value(l.Config); got != want {
						t.Errorf("%s: got %v, want %v", way, got, want)
					}
				}
			})
		}
		for _, text := range setting.refuse {
			t.Run(setting.name+": "+text, func(t *testing.T) {
				for way, load := range ways(t, text) {
					l, err := load()
					if err == nil {
						t.Errorf("%s: accepted as %v", way, setting.value(l.Config))
					} else if several(err) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), section) {
						t.Errorf("%s: %v", way, err)
					}
				}
			})
		}
	}
}

func several(err error) bool {
	_, several := err.(config.Mistakes)
	return several
}

// Names are checked in their original spelling. A name with another case or
// with dots, a name that is not text, and a duplicate name are refused.
func TestNamesAreCheckedInTheirSpelling(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"a section in another case", "limits: {batch_keys: 5}\nLimits: {max_waiters: 77}", "Limits: unknown setting; did you mean limits?"},
		{"a section in capitals", "LOG: {level: warn}", "LOG: unknown setting; did you mean log?"},
		{"a setting in another case", "log: {Level: warn}", "log.Level: unknown setting; did you mean log.level?"},
		{"a setting in both cases", "log: {level: warn, LEVEL: info}", "log.LEVEL: unknown setting; did you mean log.level?"},
		{"a setting in capitals", "cache: {MAX_BYTES: 1MiB}", "cache.MAX_BYTES: unknown setting; did you mean cache.max_bytes?"},
		{"a setting in camel case", "cache: {maxBytes: 1MiB}", "cache.maxBytes: unknown setting; did you mean cache.max_bytes?"},
		{"in a group", "groups: [{name: a, ttl: 1s, TTL: 2s}]", "groups[a].TTL: unknown setting; did you mean groups[a].ttl?"},
		{"a group's name", "groups: [{Name: a}]", "groups[0].Name: unknown setting; did you mean groups[0].name?"},
		{"in a group's origin", "groups: [{name: a, origin: {Pool: p, pool: p, path: '/{key}'}}]\npools: [{name: p}]", "groups[a].origin.Pool: unknown setting; did you mean groups[a].origin.pool?"},
		{"in an endpoint", "pools: [{name: p, endpoints: [{name: a, url: 'http://h', Weight: 2}]}]", "pools[p].endpoints[a].Weight: unknown setting; did you mean pools[p].endpoints[a].weight?"},
		{"a whole section of a pool", "pools: [{name: p, Health: {max_fails: 1}}]", "pools[p].Health: unknown setting; did you mean pools[p].health?"},
		{"dots", "cache.max_bytes: 1MiB", "cache.max_bytes: unknown setting; a name has no dots: write cache: {max_bytes: …}"},
		{"dots in a section", "pools: [{name: p, health.max_fails: 1}]", "pools[p].health.max_fails: unknown setting"},
		{"a letter that folds to another", "log: {leveŀ: warn}", "log.leveŀ: unknown setting; did you mean log.level?"},
		{"an empty name", "log: {'': warn}", `"log.": unknown setting`},
		{"a line break in a name", `log: {"a\nb": 1}`, `"log.a\nb": unknown setting`},
		{"a section twice", "log: {level: info}\ncache: {}\nlog: {level: warn}", `yaml: unmarshal errors: line 3: mapping key "log" already defined at line 1`},
		{"a setting of an item twice", "groups: [{name: a, ttl: 1s, ttl: 2s}]", `yaml: unmarshal errors: line 1: mapping key "ttl" already defined at line 1`},
		{"quoted and not", `log: {level: info, "level": warn}`, `yaml: unmarshal errors: line 1: mapping key "level" already defined at line 1`},
		{"a number as a name", "1: {level: info}", "line 1: 1 is not the name of a setting"},
		{"a truth as a name", "log: {true: info}", "line 1: true is not the name of a setting"},
		{"nothing as a name", "log:\n  ~: info", "line 2: ~ is not the name of a setting"},
		{"a list as a name", "log: {[a]: info}", "line 1: […] is not the name of a setting"},
		{"an alias as a name", "node: {id: &a level}\nlog: {*a : info}", "line 2: *a is not the name of a setting"},
		{"a binary value", "node: {id: !!binary aGk=}", "line 1: values of type !!binary are not supported"},
		{"a type of one's own", "node: {id: !name n}", "line 1: values of type !name are not supported"},
		{"an alias of nothing", "node: *a", "yaml: unknown anchor 'a' referenced"},
		{"an alias of itself", "node: &a {id: *a}", "yaml: anchor 'a' value contains itself"},
		{"merged, in another case", "groups: [{<<: {TTL: 5s}, name: a}]", "groups[a].TTL: unknown setting; did you mean groups[a].ttl?"},
		{"merged from a text", "groups: [{<<: text, name: a}]", "yaml: map merge requires map or sequence of maps as the value"},
		{"two merges", "groups: [{<<: {ttl: 5s}, <<: {jitter: 0}, name: a}]", `yaml: unmarshal errors: line 1: mapping key "<<" already defined at line 1`},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := write(t, row.text)
			for range 5 { // the order of a map must not matter
				_, err := config.Load(file, nil)
				wantError(t, err, file+": "+row.want)
			}
		})
	}
}

// Anchors and merge keys work as in YAML: an item's own settings go before
// merged ones.
func TestAnchorsAndMergeKeys(t *testing.T) {
	l := load(t, write(t, `
pools:
  - &p {name: p, health: &h {max_fails: 7}, endpoints: [{name: a, url: "http://h"}]}
  - {<<: *p, name: q}
  - {name: r, health: *h}
groups:
  - {name: a, ttl: 1s, <<: [{ttl: 2s, jitter: 50%}, {jitter: 20%, negative_ttl: 3s}]}
`))
	p, g := l.Config.Pools, l.Config.Groups[0]
	if len(p) != 3 || p[1].Name != "q" || p[1].Health.MaxFails != 7 || len(p[1].Endpoints) != 1 || p[2].Health.MaxFails != 7 {
		t.Errorf("pools %+v", p)
	}
	if g.TTL != time.Second || g.Jitter != 0.5 || g.NegativeTTL != 3*time.Second {
		t.Errorf("group %+v", g)
	}
}

func TestOneDocument(t *testing.T) {
	const first = "log: {level: warn}\n"
	for name, text := range map[string]string{
		"an end":                   first + "...\n",
		"an end and a comment":     first + "...\n# that is all\n",
		"nothing after a mark":     first + "---\n",
		"comments after a mark":    first + "---\n# nothing\n\n",
		"nothing, twice":           first + "---\n---\n...\n",
		"null":                     first + "---\n~\n",
		"a mark before it":         "---\n" + first,
		"a comment before it":      "# kring\n---\n" + first,
		"a directive":              "%YAML 1.1\n---\n" + first,
		"lines that end with CRLF": strings.ReplaceAll(first+"---\n", "\n", "\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			if l := load(t, write(t, text)); l.Config.Log.Level != "warn" {
				t.Errorf("log.level is %s", l.Config.Log.Level)
			}
		})
	}
	for name, row := range map[string][2]string{
		"misspelt":                    {first + "---\nlgo: {level: info}\n", "line 2: a second document; all settings must be in one"},
		"the same again":              {first + "---\n" + first, "line 2: a second document; all settings must be in one"},
		"an empty section":            {first + "---\nlog:\n", "line 2: a second document; all settings must be in one"},
		"nothing in braces":           {first + "---\n{}\n", "line 2: a second document; all settings must be in one"},
		"a text":                      {first + "---\ntext\n", "line 2: a second document; all settings must be in one"},
		"behind an empty one":         {first + "---\n---\n" + first, "line 3: a second document; all settings must be in one"},
		"behind a first empty one":    {"---\n---\n" + first, "line 2: a second document; all settings must be in one"},
		"behind an end":               {first + "...\n---\n" + first, "line 3: a second document; all settings must be in one"},
		"without a mark":              {first + "...\n" + first, "after the first document: yaml: line 2: did not find expected <document start>"},
		"no YAML":                     {first + "---\n{[\n", "after the first document: yaml: "},
		"no YAML behind an empty one": {first + "---\n---\na: b: c\n", "after the first document: yaml: "},
		"a tab":                       {first + "---\n\ta: 1\n", "yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, row[0])
			_, err := config.Load(file, nil)
			if err == nil || !strings.HasPrefix(err.Error(), file+": "+row[1]) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s", err, row[1])
			}
		})
	}
}

// All mistakes are reported at once, except those that another one explains.
func TestAllMistakesAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"a name, a kind and a value", "cache: {max_byte: 1MiB}\nlimits: {batch_keys: many}\nlog: {level: loud}", []string{
			"cache.max_byte: unknown setting; did you mean cache.max_bytes?", `limits.batch_keys: "many" is not a whole number`, `log.level: "loud" must be debug, info, warn or error`,
		}},
		{"three values of a section", "limits: {request_timeout: 1ns, max_waiters: 0, rate_per_token: -1}", []string{
			"limits.max_waiters: 0 must be more than 0", "limits.rate_per_token: -1 is negative", "limits.request_timeout: 1ns must be 10ms to 24h",
		}},
		{"three values of a group", "groups: [{name: a, ttl: -1s, jitter: 150%, load_timeout: 0s}, {name: b, key_pattern: '('}]", []string{
			"groups[a].ttl: -1s: must not be negative", "groups[a].jitter: 1.5: must be at least 0 and less than 1", "groups[a].load_timeout: 0s must be 10ms to 24h",
			"groups[b].key_pattern: (: error parsing regexp: missing closing ): `(`",
		}},
		{"two pools and an endpoint", "pools: [{name: p, policy: x, max_loads: 0, endpoints: [{name: a, url: h}]}, {name: q, state: x}]", []string{
			`pools[p].policy: "x": unknown, choose one of least_assigned, least_in_flight, round_robin, smooth_weighted, weighted`,
			"pools[p].max_loads: 0: must be at least 1", `pools[p].endpoints[a].url: "h": must begin with http:// or https://`, `pools[q].state: "x": must be local or redis`,
		}},
		{"a name twice, and a value", "groups: [{name: a}, {name: a}, {name: b, ttl: -1s}]", []string{
			`groups[a].name: "a" is there twice`, "groups[b].ttl: -1s: must not be negative",
		}},
		{"a section without its name", "pool: [{name: p}]\ngroups: [{name: a, origin: {pool: p, path: '/{key}'}}]", []string{"pool: unknown setting; did you mean pools?"}},
		{"an item without its name", "pools: [{nam: p}]\ngroups: [{name: a, origin: {pool: p, path: '/{key}'}}]", []string{"pools[0].nam: unknown setting; did you mean pools[0].name?"}},
		{"half an origin", "groups: [{name: a, origin: {pool: p, paht: '/{key}'}}]\npools: [{name: p}]", []string{"groups[a].origin.paht: unknown setting; did you mean groups[a].origin.path?"}},
		{"the node's id", "nod: {id: a}\ncluster: {peers: ['a=http://127.0.0.1:8001', 'b=http://127.0.0.1:8002']}", []string{"nod: unknown setting; did you mean node?"}},
		{"a budget that is none", "cache: {max_bytes: lots, max_value_bytes: 512MiB}", []string{`cache.max_bytes: "lots" is not a size (try 256MiB, 64KiB or a number of bytes)`}},
		{"Redis's address", "redis: {address: h}\npools: [{name: p, policy: least_assigned, state: redis}]", []string{`redis.address: "h": must be host:port`}},
		{"open to strangers, and a typo", "node: {listen: ':8001'}\nlog: {levl: info}", []string{
			"log.levl: unknown setting; did you mean log.level?", `node.listen: ":8001" is open to other machines: set cluster.secret and auth.tokens (or start with --insecure)`,
		}},
		{"a pool that is not there, and another one that is wrong", "pools: [{name: p, max_loads: 0}]\ngroups: [{name: a, origin: {pool: q, path: '/{key}'}}]", []string{
			"pools[p].max_loads: 0: must be at least 1", `groups[a].origin.pool: "q" is not in the list pools`,
		}},
		{"a pool that is wrong, and one that is not there beside it", "pools: [{name: p, endpoints: [{name: a, url: h}]}]\ngroups: [{name: a, origin: {pool: p, path: '/{key}'}}, {name: b, origin: {pool: q, path: '/{key}'}}]", []string{
			`pools[p].endpoints[a].url: "h": must begin with http:// or https://`, `groups[b].origin.pool: "q" is not in the list pools`,
		}},
		{"a token with nothing right", "auth: {tokens: [{name: a, role: x, groups: [g]}, {role: y}]}", []string{
			`auth.tokens[a].token_file: "" must name a file`, `auth.tokens[a].role: "x" must be read, write or admin`, `auth.tokens[a].groups: "g" is not in the list groups`,
			`auth.tokens[1].name: "" must be set`, `auth.tokens[1].token_file: "" must name a file`, `auth.tokens[1].role: "y" must be read, write or admin`,
		}},
		{"roles", "auth: {tokens: [{name: a, token_file: f, role: x}, {name: b, role: read}], allowed_origin_hosts: ['a/b']}", []string{
			`auth.allowed_origin_hosts: "a/b": must be a host, host:port or *.domain`, `auth.tokens[a].role: "x" must be read, write or admin`, `auth.tokens[b].token_file: "" must name a file`,
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := write(t, row.text)
			_, err := config.Load(file, nil)
			var got []string
			if all, ok := err.(config.Mistakes); ok {
				for _, e := range all {
					got = append(got, e.Error())
				}
			} else if err != nil {
				got = []string{err.Error()}
			}
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], file+": ")
			}
			slices.Sort(got) // they are in the order of the checks
			slices.Sort(row.want)
			if !slices.Equal(got, row.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(row.want, "\n"))
			}
		})
	}
	t.Run("in file, variables and flags", func(t *testing.T) {
		t.Setenv("KRING_CACHE_MAXBYTES", "1MiB")
		t.Setenv("KRING_CLUSTER_SERCET", "s")
		t.Setenv("KRING_LIMITS_BATCH_KEYS", "many")
		file := write(t, "log: {format: xml}")
		_, err := config.Load(file, flags(t, "--cache-max-key-bytes=0"))
		want := `KRING_CACHE_MAXBYTES: unknown setting; did you mean KRING_CACHE_MAX_BYTES?; KRING_CLUSTER_SERCET: unknown setting; did you mean KRING_CLUSTER_SECRET?; ` +
			`KRING_LIMITS_BATCH_KEYS: limits.batch_keys: "many" is not a whole number; --cache-max-key-bytes: cache.max_key_bytes: 0: must be 1 to 65536; ` +
			file + `: log.format: "xml" must be text or json`
		wantError(t, err, want)
	})
}

// Without node.listen a node listens at its address in cluster.peers.
func TestANodeListensAtItsAddressInTheList(t *testing.T) {
	const peers = `cluster: {peers: ["a=http://127.0.0.1:8301", "b=http://127.0.0.2:8302;weight=2", "c=http://[::1]:8303", "d=http://10.0.0.1:8304", "e=http://name.example:8305/"]%s}` + "\n"
	for _, row := range []struct{ name, text, want, problem string }{
		{"its own line", "node: {id: a}\n" + peers, "127.0.0.1:8301", ""},
		{"with a weight", "node: {id: b}\n" + strings.Replace(peers, "%s", ", weight: 2", 1), "127.0.0.2:8302", ""},
		{"IPv6", "node: {id: c}\n" + peers, "[::1]:8303", ""},
		{"off loopback", "node: {id: d}\n" + peers, "", `node.listen: "10.0.0.1:8304" is open to other machines: set cluster.secret and auth.tokens (or start with --insecure); node.listen is not set, and follows cluster.peers`},
		{"a name", "node: {id: e}\n" + peers, "", `node.listen: "name.example:8305" is open to other machines: set cluster.secret and auth.tokens (or start with --insecure)`},
		{"it says where", "node: {id: a, listen: 'localhost:8301'}\n" + peers, "localhost:8301", ""},
		{"it says elsewhere", "node: {id: a, listen: '127.0.0.1:8001'}\n" + peers, "", `node.listen: "127.0.0.1:8001" is not the address that cluster.peers has for a (http://127.0.0.1:8301): without node.listen the node listens there; if another address leads to it, set node.advertise to that URL`},
		{"it is reached elsewhere", "node: {id: a, advertise: 'http://127.0.0.1:8301'}\n" + peers, "127.0.0.1:8001", ""},
		{"no list", "node: {id: a}", "127.0.0.1:8001", ""},
		{"not in the list", "node: {id: x}\n" + peers, "", "this node's id x is missing"},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := write(t, strings.Replace(row.text, "%s", "", 1))
			l, err := config.Load(file, nil)
			switch {
			case row.problem != "":
				if err == nil || !strings.Contains(err.Error(), row.problem) || !strings.HasPrefix(err.Error(), file+": ") {
					t.Errorf("got  %v\nwant %s", err, row.problem)
				}
			case err != nil:
				t.Error(err)
			case l.Config.Node.Listen != row.want:
				t.Errorf("listens at %s, want %s", l.Config.Node.Listen, row.want)
			}
		})
	}
}

// PrintChanged prints only what differs from the defaults, or for items from
// the defaults of items.
func TestPrintChangedIsWhatDiffers(t *testing.T) {
	t.Setenv("KRING_LOG_LEVEL", "debug")
	file := write(t, `
node: {listen: "127.0.0.1:8001"}
cache: {max_bytes: 256MiB, negative_share: 0.03}
groups: [{name: kv, ttl: 0s, jitter: 10%}, {name: docs, ttl: 60s, origin: {pool: p, path: "/{key}"}}]
pools: [{name: p, max_loads: 64, retry_budget: 20%, health: {max_fails: 3}, endpoints: [{name: a, url: "http://h", weight: 1}, {name: b, url: "http://i", weight: 2}]}]
limits: {batch_keys: 1000}
`)
	var text strings.Builder
	if err := load(t, file, "--limits-max-waiters=9").PrintChanged(&text); err != nil {
		t.Fatal(err)
	}
	want := `cache:
  negative_share: 3% # file
groups: # file
  - name: kv # file
  - name: docs # file
    origin:
      pool: p # file
      path: "/{key}" # file
pools: # file
  - name: p # file
    endpoints: # file
      - name: a # file
        url: "http://h" # file
      - name: b # file
        url: "http://i" # file
        weight: 2 # file
    retry_budget: 20% # file
limits:
  max_waiters: 9 # flag --limits-max-waiters
log:
  level: debug # environment KRING_LOG_LEVEL
`
	got := strings.ReplaceAll(text.String(), "# file "+file, "# file")
	for strings.Contains(got, "  #") {
		got = strings.ReplaceAll(got, "  #", " #")
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
