package cli_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// systemd is told: ready when the node listens, stopping when it drains.
func TestNotifiesSystemd(t *testing.T) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	p := run(t, []string{"NOTIFY_SOCKET=" + socket.LocalAddr().String()}, "serve", "--listen", "127.0.0.1:0")
	told := func() string {
		if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		message := make([]byte, 100)
		n, err := socket.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}
	if got := told(); got != "READY=1" {
		t.Errorf("first %q", got)
	}
	p.signal(t, syscall.SIGTERM)
	if got := told(); got != "STOPPING=1" {
		t.Errorf("then %q", got)
	}
	p.ends(t, 0)
}

// A request keeps a draining node alive despite repeated SIGTERMs, but not
// despite a Ctrl-C.
func TestSecondInterruptExitsAtOnce(t *testing.T) {
	origin := run(t, nil, "origin", "--listen", "127.0.0.1:0", "--latency", "1h")
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := strings.ReplaceAll(`
node: {listen: "127.0.0.1:0"}
groups: [{name: docs, origin: {pool: docs, path: "/docs/{key}"}, load_timeout: 1h}]
pools: [{name: docs, endpoints: [{name: a, url: "ORIGIN"}]}]
limits: {request_timeout: 1h}
handoff: {drain_timeout: 1h}
`, "ORIGIN", origin.url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	node := run(t, nil, "serve", "--config", file)
	conn, err := net.Dial("tcp", strings.TrimPrefix(node.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /v1/cache/docs/k HTTP/1.1\r\nHost: kring\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	until(t, "the origin is asked for k", func() bool {
		return body(t, origin.url+"/_/stats/k") == `{"key":"k","loads":1,"in_flight":1,"peak_in_flight":1,"last_status":0}`+"\n"
	})

	node.signal(t, syscall.SIGTERM)
	until(t, "the node says that it drains", func() bool { return strings.Contains(node.stderr.String(), "draining") })
	select {
	case err := <-node.done:
		t.Fatalf("it ended with a request under way: %v; %s", err, node.stderr.String())
	default:
	}
	node.signal(t, syscall.SIGTERM)
	until(t, "the node says that it is stopping already", func() bool { return strings.Contains(node.stderr.String(), "stopping already") })
	select {
	case err := <-node.done:
		t.Fatalf("a second SIGTERM ended it: %v; %s", err, node.stderr.String())
	default:
	}
	node.signal(t, syscall.SIGINT)
	node.ends(t, 1)
	if got := node.stderr.String(); !strings.Contains(got, "kring: interrupted while stopping, exiting at once\n") {
		t.Errorf("stderr %q", got)
	}
	// The origin's answer would take an hour, but SIGTERM ends it.
	origin.signal(t, syscall.SIGTERM)
	origin.ends(t, 0)
}

func run(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command("kring", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "GOCOVERDIR="+t.TempDir())
	p, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// A service manager that does not read its messages delays neither the start
// nor the end.
func TestAServiceManagerThatDoesNotRead(t *testing.T) {
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	conn, err := net.DialUnix("unixgram", nil, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for err == nil { // until the socket is full
		if err := conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err = conn.Write([]byte("x"))
	}
	p := run(t, []string{"NOTIFY_SOCKET=" + address.Name}, "serve", "--listen", "127.0.0.1:0")
	answers(t, "GET", p.url+"/readyz", "", 200, "")
	p.signal(t, syscall.SIGTERM)
	p.ends(t, 0)
	if got := p.stderr.String(); !strings.Contains(got, "cannot notify systemd") {
		t.Errorf("stderr %q", got)
	}
}
