package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kring/node/nodetest"
)

// A setting that cannot be ends the process: one line that names field and
// value, exit code 2. A port in use is 3. Nothing waits for anything first.
func TestMistakesEndTheProcess(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().String()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		config string
		args   []string
		code   int
		want   string // in the line
	}{
		{"a duplicate node id", `cluster: {peers: ["a=http://127.0.0.1:1", "a=http://127.0.0.1:2"]}`, []string{"--node-id", "a"}, 2, `cluster.peers: "a=http://127.0.0.1:2": the id a is there twice`},
		{"self missing from the peers", `cluster: {peers: ["a=http://127.0.0.1:1"]}`, []string{"--node-id", "c"}, 2, `cluster.peers: "a=http://127.0.0.1:1": this node's id c is missing`},
		{"0 virtual nodes", `cluster: {virtual_nodes: 0}`, nil, 2, `cluster.virtual_nodes: 0: must be`},
		{"a misspelt setting", `cache: {max_byte: 1MiB}`, nil, 2, `cache.max_byte: unknown setting; did you mean cache.max_bytes?`},
		{"a misspelt flag", ``, []string{"--cache-max-byte", "1MiB"}, 2, `unknown flag: --cache-max-byte; did you mean --cache-max-bytes?`},
		{"a bad URL of a peer", `cluster: {peers: ["a=ftp://127.0.0.1:1"]}`, []string{"--node-id", "a"}, 2, `cluster.peers: "a=ftp://127.0.0.1:1": bad URL`},
		{"a bad URL of an endpoint", `pools: [{name: p, endpoints: [{name: a, url: "h:1"}]}]`, nil, 2, `pools[p].endpoints[a].url: "h:1": must begin with http`},
		{"an unknown policy", `pools: [{name: p, policy: random}]`, nil, 2, `pools[p].policy: "random": unknown, choose one of`},
		{"an unknown pool", `groups: [{name: g, origin: {pool: q, path: "/{key}"}}]`, nil, 2, `groups[g].origin.pool: "q" is not in the list pools`},
		{"no YAML", "a: b: c", nil, 2, `yaml`},
		{"a file that is not there", "", []string{"--config", "nowhere.yaml"}, 2, `nowhere.yaml`},
		{"open to strangers", "", []string{"--listen", "0.0.0.0:0"}, 2, `node.listen: "0.0.0.0:0" is open to other machines: set cluster.secret and auth.tokens`},
		{"open to strangers, with a secret", "cluster: {secret: s}", []string{"--listen", "0.0.0.0:0"}, 2, `node.listen: "0.0.0.0:0" is open to other machines: set auth.tokens`},
		{"a port in use", "", []string{"--listen", port}, 3, `node.listen: "` + port + `": cannot listen`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"serve"}
			if tt.config != "" {
				args = append(args, "--config", write(t, tt.config))
			}
			// Far above any machine's start of a process, and far below any
			// time-out of the program's own.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, bin, append(args, tt.args...)...)
			cmd.Dir = t.TempDir()
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.ExitCode() != tt.code {
				t.Fatalf("ended with %v, want exit code %d; %s", err, tt.code, stderr.String())
			}
			text := stderr.String()
			if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "kring: ") || !strings.Contains(text, tt.want) || stdout.Len() > 0 {
				t.Errorf("stdout %q, stderr %q; want one line with %q", stdout.String(), text, tt.want)
			}
		})
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kring.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// client has connections of its own, from an address of its own.
func client(t *testing.T, from string) *http.Client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: d.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// crowd opens n connections from five addresses, a third of them silent, a
// third in the middle of a header, a third in the middle of a body.
func crowd(t *testing.T, url string, n int) {
	t.Helper()
	address := strings.TrimPrefix(url, "http://")
	for i := range n {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%5))}}
		conn, err := d.Dial("tcp", address)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { conn.Close() })
		said := []string{"", "GET /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\nX-Slow: ", "PUT /v1/cache/kv/slow HTTP/1.1\r\nHost: k\r\nContent-Length: 1000\r\n\r\nsome"}[i%3]
		// The node may have closed it by now, for the next.
		_, _ = io.WriteString(conn, said)
	}
}

// 5,000 connections that do nothing, or say a little and then nothing: other
// clients notice nothing, and memory stays within 40 KiB for each.
func TestFiveThousandIdleConnections(t *testing.T) {
	nodes, origin := cluster(t, 1, "limits: {max_connections: 6000}\n")
	n := nodes[0]
	before, _ := n.rss(t)
	crowd(t, n.url, 5000)
	c := client(t, "127.0.0.9")
	for i := range 200 {
		key := fmt.Sprint("k", i%20)
		resp, err := c.Get(n.url + "/v1/cache/docs/" + key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, %v", key, resp.StatusCode, err)
		}
		resp.Body.Close()
	}
	for i := range 20 {
		if got := loadsOf(t, origin, fmt.Sprint("k", i)); got != 1 {
			t.Errorf("k%d: %d loads", i, got)
		}
	}
	// How many are open yet depends on how long this took: each is given 5 s.
	for _, name := range []string{"kring_http_connections_refused_total", "kring_http_connections_displaced_total"} {
		if v := metric(t, n, name); v != 0 {
			t.Errorf("%s is %v: there is room for 6,000", name, v)
		}
	}
	if _, peak := n.rss(t); peak-before > 5000*40<<10 {
		t.Errorf("5,000 connections took %d MiB", (peak-before)>>20)
	}
}

// metric reads a metric, named with its labels.
func metric(t *testing.T, p *process, name string) float64 {
	t.Helper()
	_, body := get(p.url + "/metrics")
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("%s has no metric %s", p.id, name)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Bodies without end, from an origin, on eight keys at a time: each is cut at
// the cap, and the memory is that of the cap and not of the body.
func TestEndlessBodiesLeaveMemoryFlat(t *testing.T) {
	block := bytes.Repeat([]byte("x"), 64<<10)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "long") {
			w.Header().Set("Content-Length", strconv.Itoa(10_000_000_000))
		}
		for {
			if _, err := w.Write(block); err != nil {
				return // the node has closed: that is what it is about
			}
		}
	}))
	defer endless.Close()
	file := write(t, fmt.Sprintf(`
groups: [{name: endless, origin: {pool: endless, path: "/{key}"}}]
pools: [{name: endless, max_body_bytes: 1MiB, endpoints: [{name: a, url: %q}]}]
`, endless.URL))
	n := &process{id: "n", url: "http://" + nodetest.FreeAddress(t)}
	n.args = []string{"serve", "--config", file, "--listen", strings.TrimPrefix(n.url, "http://")}
	n.start(t)
	eventually(t, "it listens", func() bool { s, _ := get(n.url + "/readyz"); return s == http.StatusOK })
	before, _ := n.rss(t)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				status, body := get(fmt.Sprintf("%s/v1/cache/endless/%d-%d-%s", n.url, w, i, []string{"long", "chunked"}[i%2]))
				if status != http.StatusBadGateway || !strings.Contains(body, "origin-bad-answer") {
					t.Errorf("status %d: %s", status, body)
				}
			}
		})
	}
	wg.Wait()
	if _, peak := n.rss(t); peak-before > 64<<20 {
		t.Errorf("160 endless bodies, 8 at a time, of which 1 MiB may be read: RSS grew from %d to %d MiB", before>>20, peak>>20)
	}
}
