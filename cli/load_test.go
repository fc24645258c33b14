package cli_test

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Ctrl-C ends a load with its report, and with exit code 0 if all was well.
func TestLoadInterrupted(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/stats":
			_, _ = w.Write([]byte("{}"))
		case strings.HasPrefix(r.URL.Path, "/v1/cache/"):
			w.Header().Set("Cache-Status", "k; hit")
		default:
			http.NotFound(w, r)
		}
	}))
	defer node.Close()
	cmd := exec.Command("kring", "load", "--nodes", node.URL, "--group", "kv", "--duration", "1h", "--rate", "50")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // the process may have ended
	defer func() {
		if !late.Stop() {
			t.Errorf("it did not end within %v", patience)
		}
	}()
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !strings.Contains(lines.Text(), "req/s") { // the first progress line
		t.Errorf("stderr begins with %q", lines.Text())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "kring:") {
			t.Errorf("stderr: %s", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v", err)
	}
	if text := stdout.String(); !strings.Contains(text, "interrupted") || !strings.Contains(text, "all was well") {
		t.Errorf("stdout: %s", text)
	}
}
