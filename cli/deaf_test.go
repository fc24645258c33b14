package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deaf are the ways in which a process's output has no reader. Each one returns
// the file that the process writes to.
var deaf = []struct {
	name string
	lost bool // the output is lost at once
	file func(t *testing.T) *os.File
}{
	{"a pipe whose reader is gone", true, func(t *testing.T) *os.File {
		r, w := pipe(t)
		r.Close()
		return w
	}},
	{"a full pipe", false, func(t *testing.T) *os.File {
		_, w := pipe(t)
		fill(t, w)
		return w
	}},
	{"a socket whose reader is gone", true, func(t *testing.T) *os.File {
		r, w := sockets(t)
		r.Close()
		return w
	}},
	{"a full socket", false, func(t *testing.T) *os.File {
		_, w := sockets(t)
		fill(t, w)
		return w
	}},
	{"a file on a full disk", true, func(t *testing.T) *os.File {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { full.Close() })
		return full
	}},
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func sockets(t *testing.T) (r, w *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(pair[0]), "reader"), os.NewFile(uintptr(pair[1]), "writer")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// fill writes until the file is full.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd := int(w.Fd()) // Fd makes the pipe blocking, as a shell's pipe is
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; {
		switch _, err := unix.Write(fd, make([]byte, size)); {
		case errors.Is(err, unix.EAGAIN):
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

// speak starts a kring that writes to these.
func speak(t *testing.T, stdout, stderr io.Writer, args ...string) *process {
	t.Helper()
	cmd := exec.Command("kring", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + t.TempDir()}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, done: make(chan error, 1)}
	go func() {
		p.done <- cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// free is an address without a listener.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// answer is the status and the body of an answer within patience; 0: no answer.
func answer(method, url, body string) (int, string) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// answers waits until a request gets this status and a body that contains part.
func answers(t *testing.T, method, url, body string, status int, part string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		got, text := answer(method, url, body)
		if got == status && strings.Contains(text, part) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s: %d %q, want %d with %q", method, url, got, text, status, part)
		}
	}
}

func metric(t *testing.T, url, name string) float64 {
	t.Helper()
	_, text := answer("GET", url+"/metrics", "")
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatalf("no %s among the metrics: %q", name, text)
	}
	n, err := strconv.ParseFloat(line[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A node whose output has no reader works as usual. A member that is killed and
// returns is called again, and both agree on who acts; loads fail and work
// again; SIGHUP reloads, and SIGTERM drains.
func TestANodeWithoutAReaderOfItsLog(t *testing.T) {
	for i, way := range deaf {
		format := []string{"text", "json"}[i%2]
		t.Run(way.name+", "+format, func(t *testing.T) {
			t.Parallel()
			nobodyReads(t, way.file(t), way.lost, format)
		})
	}
}

func nobodyReads(t *testing.T, deaf *os.File, lost bool, format string) {
	origin := run(t, nil, "origin", "--listen", "127.0.0.1:0")
	a, b := "http://"+free(t), "http://"+free(t)
	file := filepath.Join(t.TempDir(), "kring.yaml")
	text := fmt.Sprintf(`
cluster: {peers: ["a=%s", "b=%s"]}
groups: [{name: kv}, {name: docs, stale_if_error: 0s, origin: {pool: docs, path: "/docs/{key}"}}]
pools: [{name: docs, health: {max_fails: 0}, endpoints: [{name: a, url: %q}]}]
log: {format: %s}
`, a, b, origin.url, format)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(id, url string, output *os.File) *process {
		return speak(t, output, output, "serve", "--config", file, "--node-id", id, "--listen", strings.TrimPrefix(url, "http://"))
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	nodeA, nodeB := serve("a", a, deaf), serve("b", b, null)
	answers(t, "GET", a+"/readyz", "", 200, "")
	answers(t, "GET", b+"/readyz", "", 200, "")

	answers(t, "PUT", origin.url+"/_/control", `{"error_rate":1}`, 200, "")
	for i := range 20 { // enough for each node to own some
		if status, text := answer("GET", fmt.Sprintf("%s/v1/cache/docs/k%d", a, i), ""); status != http.StatusBadGateway {
			t.Errorf("a load that fails: %d %s", status, text)
		}
	}
	answers(t, "PUT", origin.url+"/_/control", `{"error_rate":0}`, 200, "")
	for i := range 20 {
		answers(t, "GET", fmt.Sprintf("%s/v1/cache/docs/k%d", a, i), "", 200, `"key"`)
	}

	nodeB.kill()
	answers(t, "GET", a+"/v1/cluster", "", 200, `"state":"down"`)
	serve("b", b, null)
	answers(t, "GET", b+"/readyz", "", 200, "")
	agree := func(url string) bool {
		_, text := answer("GET", url+"/v1/cluster", "")
		return strings.Count(text, `"state":"active"`) == 2
	}
	until(t, "both nodes agree on who acts", func() bool { return agree(a) && agree(b) })
	for i := range 20 {
		key := fmt.Sprintf("/v1/cache/kv/k%d", i)
		through, other := a, b
		if i%2 == 1 {
			through, other = b, a
		}
		value := fmt.Sprintf("value %d", time.Now().UnixNano())
		if status, text := answer("PUT", through+key, value); status != 201 && status != 204 {
			t.Errorf("PUT %s: %d %s", key, status, text)
		}
		if status, text := answer("GET", other+key, ""); status != 200 || text != value {
			t.Errorf("GET %s through the other node: %d %q, want %q", key, status, text, value)
		}
	}

	nodeA.signal(t, syscall.SIGHUP)
	until(t, "the reload is counted", func() bool { return metric(t, a, `kring_config_reloads_total{result="accepted"}`) == 1 })
	if n := metric(t, a, "kring_log_lines_dropped_total"); lost != (n > 0) {
		t.Errorf("%v lines are dropped", n)
	}
	nodeA.signal(t, syscall.SIGTERM)
	nodeA.signal(t, syscall.SIGTERM)
	nodeA.ends(t, 0)
}

// Without a reader, too, Ctrl-C twice ends a node at once, the demo origin ends
// with SIGTERM, and a command that cannot start ends with its exit code.
func TestOtherCommandsWithoutAReader(t *testing.T) {
	for _, way := range deaf {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			file := way.file(t)
			speak(t, file, file, "serve", "--cache-max-bytes", "12XB").ends(t, 2)
			speak(t, file, file, "serve", "--nope").ends(t, 2)

			address := free(t)
			origin := speak(t, file, file, "origin", "--listen", address, "--latency", "1h")
			answers(t, "GET", "http://"+address+"/_/stats", "", 200, "")
			speak(t, file, file, "origin", "--listen", address).ends(t, 3)

			listen := free(t)
			node := speak(t, file, file, "serve", "--listen", listen, "--handoff-drain-timeout", "1h", "--limits-request-timeout", "1h",
				"--groups", `[{name: kv}, {name: docs, load_timeout: 1h, origin: {pool: p, path: "/docs/{key}"}}]`,
				"--pools", `[{name: p, endpoints: [{name: a, url: "http://`+address+`"}]}]`)
			answers(t, "GET", "http://"+listen+"/readyz", "", 200, "")
			// This one prints a warning first.
			speak(t, file, file, "serve", "--listen", listen, "--cache-max-bytes", "900TiB", "--cluster-virtual-nodes", "65536").ends(t, 3)

			stdout, err := os.Create(filepath.Join(t.TempDir(), "result"))
			if err != nil {
				t.Fatal(err)
			}
			defer stdout.Close()
			speak(t, stdout, file, "load", "--nodes", "http://"+listen, "--group", "kv", "--count", "200", "--write", "50%", "--json").ends(t, 0)
			text, err := os.ReadFile(stdout.Name())
			if err != nil {
				t.Fatal(err)
			}
			var result struct{ Requests int }
			if err := json.Unmarshal(text, &result); err != nil || result.Requests != 200 {
				t.Errorf("load: %v: %s", err, text)
			}

			conn, err := net.Dial("tcp", listen)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("GET /v1/cache/docs/k HTTP/1.1\r\nHost: kring\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			answers(t, "GET", "http://"+address+"/_/stats/k", "", 200, `"in_flight":1`)
			node.signal(t, syscall.SIGINT)
			answers(t, "GET", "http://"+listen+"/readyz", "", 503, "draining")
			node.signal(t, syscall.SIGINT)
			node.ends(t, 1)
			origin.signal(t, syscall.SIGTERM)
			origin.ends(t, 0)
		})
	}
}

// A reader that returns gets the kept lines, and the number of dropped ones.
func TestReaderThatComesBackLearnsWhatWasDropped(t *testing.T) {
	r, w := pipe(t)
	fill(t, w)
	listen := free(t)
	node := speak(t, w, w, "serve", "--listen", listen, "--log-level", "debug")
	url := "http://" + listen
	answers(t, "GET", url+"/readyz", "", 200, "")
	client := &http.Client{Timeout: patience}
	for i := 0; metric(t, url, "kring_log_lines_dropped_total") == 0; i++ {
		if i == 100 {
			t.Fatal("no line is dropped after 10,000 requests")
		}
		for range 100 {
			response, err := client.Get(url + "/livez")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	w.Close()
	read := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(r)
		read <- text
	}()
	node.signal(t, syscall.SIGTERM)
	node.ends(t, 0)
	select {
	case text := <-read:
		for _, want := range []string{`msg="\d+ lines dropped"`, "msg=stopped"} {
			if !regexp.MustCompile(want).Match(text) {
				t.Errorf("no %s in …%s", want, text[max(0, len(text)-2000):])
			}
		}
		if ready := bytes.Count(text, []byte("kring ready: ")); ready != 1 {
			t.Errorf("%d ready lines", ready)
		}
	case <-time.After(patience):
		t.Fatal("the process left its pipe open")
	}
}
