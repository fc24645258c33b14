// Package e2e_test holds the tests that start the program: clusters of real
// processes that are killed, stopped, starved and attacked.
package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kring/internal/testlog"
	"kring/node/nodetest"
)

// program builds kring once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kring-test-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "kring")
	if out, err := exec.Command("../scripts/build.sh", bin).CombinedOutput(); err != nil {
		return "", fmt.Errorf("scripts/build.sh: %w: %s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// process is a kring of its own.
type process struct {
	id, url string
	cmd     *exec.Cmd
	args    []string
	output  *testlog.Buffer
	files   int // limit of open files; 0: the test's own
}

func (p *process) start(t *testing.T) {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(bin, p.args...)
	if p.files > 0 {
		limited := []string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(p.files), bin}
		p.cmd = exec.Command("sh", append(limited, p.args...)...)
	}
	p.output = &testlog.Buffer{}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.Dir = t.TempDir()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, output := p.cmd, p.output
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may have ended by itself
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("output of %v:\n%s", cmd.Args, output)
		}
	})
}

// exited says whether the process is over: a zombie, until it is waited for.
func (p *process) exited() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

// ends waits for the end after a signal.
func (p *process) ends(t *testing.T) {
	t.Helper()
	eventually(t, p.id+" has ended", p.exited)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v", p.id, err)
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// rss is the process's resident memory in bytes, now and at its highest.
func (p *process) rss(t *testing.T) (now, peak int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) int64 {
		_, rest, _ := strings.Cut(string(b), name+":")
		kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return kb << 10
	}
	return field("VmRSS"), field("VmHWM")
}

// patience is how long something may take on a busy machine: less than go
// test's time-out, which would not say what was waited for.
const patience = 45 * time.Second

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("did not come about: %s", what)
		}
		<-tick.C
	}
}

// cluster starts the demo origin and n nodes as processes, with more settings
// at the end of their configuration.
func cluster(t *testing.T, n int, more string) (nodes []*process, origin *process) {
	t.Helper()
	address := nodetest.FreeAddress(t)
	origin = &process{url: "http://" + address, args: []string{"origin", "--listen", address, "--latency", "1ms"}}
	origin.start(t)
	var peers []string
	for i := range n {
		p := &process{id: fmt.Sprintf("kring-%d", i+1), url: "http://" + nodetest.FreeAddress(t)}
		nodes = append(nodes, p)
		peers = append(peers, p.id+"="+p.url)
	}
	file := filepath.Join(t.TempDir(), "kring.yaml")
	config := fmt.Sprintf(`
cluster: {peers: [%q]}
groups:
  - {name: docs, ttl: 1h, origin: {pool: docs, path: "/docs/{key}"}}
  - {name: kv}
pools:
  - {name: docs, endpoints: [{name: a, url: %q}]}
%s`, strings.Join(peers, `","`), origin.url, more)
	config = strings.ReplaceAll(config, `\"`, `"`)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range nodes {
		p.args = []string{"serve", "--config", file, "--node-id", p.id, "--listen", strings.TrimPrefix(p.url, "http://")}
		p.start(t)
	}
	for _, p := range append([]*process{origin}, nodes...) {
		path := "/readyz"
		if p == origin {
			path = "/_/stats"
		}
		eventually(t, p.id+" is ready", func() bool {
			status, _ := get(p.url + path)
			if status == 0 && p.exited() {
				t.Fatalf("%v ended", p.args)
			}
			return status == http.StatusOK
		})
	}
	return nodes, origin
}

// plain is http.DefaultClient for tests: it does not wait for ever.
var plain = &http.Client{Timeout: patience}

// get asks for a URL; status 0 is no answer, with the reason as the body.
func get(url string) (status int, body string) {
	resp, err := plain.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// loadsOf asks the demo origin how often it was asked for a key.
func loadsOf(t *testing.T, origin *process, key string) int {
	t.Helper()
	_, body := get(origin.url + "/_/stats/" + key)
	var s struct{ Loads int }
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatalf("origin's stats of %s: %v: %s", key, err, body)
	}
	return s.Loads
}

// clients is how many ask at once in under.
const clients = 6

// under runs clients against the nodes while f does its worst, and reports
// every answer that is not a 200. f may ask how many there have been.
func under(t *testing.T, nodes []*process, keys []string, f func(answers func() int64)) {
	t.Helper()
	stop := make(chan struct{})
	var answers atomic.Int64
	var wg sync.WaitGroup
	for w := range clients {
		wg.Go(func() {
			for i := w; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				url := nodes[i%len(nodes)].url + "/v1/cache/docs/" + keys[i%len(keys)]
				if status, body := get(url); status != http.StatusOK {
					t.Errorf("%s: %d %s", url, status, body)
				}
				answers.Add(1)
			}
		})
	}
	f(answers.Load)
	close(stop)
	wg.Wait()
}

// failedCalls is how many calls of the nodes to another one were not answered.
func failedCalls(t *testing.T, nodes []*process, peer *process) (n int) {
	t.Helper()
	for _, p := range nodes {
		n += int(metric(t, p, `kring_peer_failed_calls_total{peer="`+peer.id+`"}`))
	}
	return n
}

func ownerOf(t *testing.T, node *process, key string) string {
	t.Helper()
	_, body := get(node.url + "/v1/explain/docs/" + key)
	var e struct{ Owner string }
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("explain %s: %v: %s", key, err, body)
	}
	return e.Owner
}

// A real kill -9 of one of three processes, and a real SIGSTOP: no error
// through the others, what was lost is loaded once more, the rest not at all.
func TestProcessesKilledAndStopped(t *testing.T) {
	for _, tc := range []struct {
		name string
		sig  syscall.Signal
	}{{"kill -9", syscall.SIGKILL}, {"kill -STOP", syscall.SIGSTOP}} {
		t.Run(tc.name, func(t *testing.T) {
			nodes, origin := cluster(t, 3, "")
			victim, others := nodes[2], nodes[:2]
			keys := make([]string, 60)
			owner := map[string]string{}
			for i := range keys {
				keys[i] = fmt.Sprintf("user:%d", i)
				owner[keys[i]] = ownerOf(t, nodes[0], keys[i])
				if status, body := get(nodes[i%3].url + "/v1/cache/docs/" + keys[i]); status != http.StatusOK {
					t.Fatalf("%d %s", status, body)
				}
			}
			under(t, others, keys, func(answers func() int64) {
				victim.signal(t, tc.sig)
				eventually(t, "every lost key is there again", func() bool {
					for _, k := range keys {
						if owner[k] == victim.id && loadsOf(t, origin, k) < 2 {
							return false
						}
					}
					return true
				})
				// A client waits for the hung node once where it asked first, and
				// once where that passed it on; then both leave the node alone.
				settled, from := failedCalls(t, others, victim), answers()
				if settled > 2*clients*len(others) {
					t.Errorf("%d calls waited for the node that is gone", settled)
				}
				eventually(t, "1000 more answers", func() bool { return answers() >= from+1000 })
				if n := failedCalls(t, others, victim); n > settled+clients {
					t.Errorf("%d calls waited at first, and %d more later", settled, n-settled)
				}
			})
			for _, k := range keys {
				n := loadsOf(t, origin, k)
				if owner[k] == victim.id && n != 2 || owner[k] != victim.id && n != 1 {
					t.Errorf("%s of %s: %d loads", k, owner[k], n)
				}
			}
			if tc.sig == syscall.SIGSTOP {
				victim.signal(t, syscall.SIGCONT)
				eventually(t, "the node is ready again", func() bool { s, _ := get(victim.url + "/readyz"); return s == http.StatusOK })
				for i, k := range keys {
					if status, body := get(nodes[i%3].url + "/v1/cache/docs/" + k); status != http.StatusOK {
						t.Errorf("%s afterwards: %d %s", k, status, body)
					}
				}
			}
		})
	}
}

// SIGTERM twice, as from an impatient supervisor: the node is not ready first
// and serves on meanwhile, also on new connections and those that are kept, and
// no client sees an error, not even one that asks the node itself until it says
// that it is not ready.
func TestSIGTERMDrainsAndExitsClean(t *testing.T) {
	nodes, origin := cluster(t, 3, "")
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	under(t, nodes[:2], keys, func(func() int64) {
		eventually(t, "the keys are there", func() bool { return loadsOf(t, origin, "h") > 0 })
		kept := &http.Client{Transport: &http.Transport{}, Timeout: patience}
		defer kept.CloseIdleConnections()
		resp, err := kept.Get(nodes[2].url + "/v1/cache/docs/a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		nodes[2].signal(t, syscall.SIGTERM)
		eventually(t, "it is not ready", func() bool {
			status, body := get(nodes[2].url + "/readyz")
			if status == 0 {
				t.Fatalf("it was gone before it said so: %s", body)
			}
			return status == http.StatusServiceUnavailable && strings.Contains(body, "/problems/draining")
		})
		nodes[2].signal(t, syscall.SIGTERM)
		resp, err = kept.Get(nodes[2].url + "/v1/cache/docs/a")
		if err != nil {
			t.Fatalf("over the kept connection: %v", err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !resp.Close {
			t.Errorf("over the kept connection: %d, close %v", resp.StatusCode, resp.Close)
		}
		nodes[2].ends(t)
	})
}

// A node that may have no more than 64 files open has room for clients, links
// and loads all the same, and those that say nothing are in nobody's way.
func TestFewOpenFiles(t *testing.T) {
	nodes, origin := cluster(t, 2, "")
	n := nodes[0]
	n.signal(t, syscall.SIGTERM)
	n.ends(t)
	n.files = 64
	n.start(t)
	eventually(t, "the node is ready", func() bool { s, _ := get(n.url + "/readyz"); return s == http.StatusOK })
	crowd(t, n.url, 300)
	for i := range 60 {
		key := fmt.Sprintf("few:%d", i)
		if status, body := get(n.url + "/v1/cache/docs/" + key); status != http.StatusOK {
			t.Errorf("%s: %d %s", key, status, body)
		}
		if loads := loadsOf(t, origin, key); loads != 1 {
			t.Errorf("%s was loaded %d times", key, loads)
		}
	}
	_, body := get(n.url + "/v1/cluster")
	if strings.Contains(body, `"state":"down"`) {
		t.Errorf("a member is down: %s", body)
	}
	if log := n.output.String(); strings.Count(log, "limits.max_connections is more than") != 1 {
		t.Errorf("log: %s", log)
	}
}
