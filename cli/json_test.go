package cli_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"kring/internal/testlog"
)

// record is a line of a JSON log.
type record struct {
	Time, Level, Msg string
	URL, ID, Config  string
	Nodes            int
	Share            float64
	Error            string
}

// records splits a text into lines; each one must be a record.
func records(t *testing.T, text string) (all []record) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.Time == "" || r.Level == "" || r.Msg == "" {
			t.Errorf("no record in JSON: %q (%v)", lines.Text(), err)
		}
		all = append(all, r)
	}
	return all
}

// With log.format: json every line of a node is JSON, from the first warning to
// the last line.
func TestAllIsJSON(t *testing.T) {
	origin := run(t, nil, "origin", "--listen", "127.0.0.1:0", "--latency", "1h")
	stdout, stderr := &testlog.Buffer{}, &testlog.Buffer{}
	p := speak(t, stdout, stderr, "serve", "--log-format", "json", "--listen", "127.0.0.1:0", "--node-id", "n", "--insecure",
		"--cache-max-bytes", "900TiB", "--limits-request-timeout", "1h", "--handoff-drain-timeout", "1h",
		"--groups", `[{name: docs, load_timeout: 1h, origin: {pool: p, path: "/docs/{key}"}}]`,
		"--pools", `[{name: p, endpoints: [{name: a, url: "`+origin.url+`"}]}]`)
	until(t, "the ready line", func() bool { return strings.Contains(stdout.String(), "\n") })
	ready := records(t, stdout.String())[0]
	if ready.Msg != "kring ready" || ready.ID != "n" || ready.Nodes != 1 || ready.Share != 1 || ready.Config != "built-in" || !strings.HasPrefix(ready.URL, "http://127.0.0.1:") {
		t.Errorf("the ready line is %q", stdout.String())
	}
	go answer("GET", ready.URL+"/v1/cache/docs/k", "")
	answers(t, "GET", origin.url+"/_/stats/k", "", 200, `"in_flight":1`)
	said := func(what string) func() bool { return func() bool { return strings.Contains(stderr.String(), what) } }
	p.signal(t, syscall.SIGHUP)
	until(t, "it says that it reloaded", said("configuration reloaded"))
	p.signal(t, syscall.SIGTERM)
	until(t, "it says that it drains", said("draining"))
	p.signal(t, syscall.SIGTERM)
	until(t, "it says that it is stopping already", said("stopping already"))
	answers(t, "PUT", origin.url+"/_/control", `{"latency":"0s"}`, 200, "")
	origin.signal(t, syscall.SIGTERM) // so that its slow answer ends
	p.ends(t, 0)
	records(t, stdout.String())
	messages := map[string]bool{}
	for _, r := range records(t, stderr.String()) {
		messages[r.Msg] = true
	}
	for _, want := range []string{
		"too little memory for the cache", "configuration reloaded", "draining",
		"kring: stopping already; interrupt (Ctrl-C) to exit at once", "stopped",
	} {
		if !messages[want] {
			t.Errorf("no line %q among %q", want, stderr.String())
		}
	}
}

// The error that ends a node at its start is a record, too, once the format is
// known. A mistake in the configuration is a plain line.
func TestTheErrorAtStartIsJSON(t *testing.T) {
	taken := run(t, nil, "serve", "--listen", "127.0.0.1:0")
	fails := func(code int, args ...string) string {
		t.Helper()
		cmd := exec.Command("kring", append([]string{"serve", "--log-format", "json"}, args...)...)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + t.TempDir()}
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != code || stdout.Len() > 0 {
			t.Errorf("%v: %v, stdout %q", args, err, stdout.String())
		}
		return stderr.String()
	}
	for args, code := range map[[2]string]int{
		{"--listen", strings.TrimPrefix(taken.url, "http://")}:            3,
		{"--auth-tokens", "[{name: a, token_file: nowhere, role: read}]"}: 2,
	} {
		text := fails(code, args[:]...)
		if all := records(t, text); len(all) != 1 || all[0].Msg != "failed" || all[0].Level != "ERROR" || all[0].Error == "" {
			t.Errorf("%v: %q", args, text)
		}
	}
	if text := fails(2, "--cache-max-bytes", "12XB"); !strings.HasPrefix(text, "kring: --cache-max-bytes: ") || strings.Count(text, "\n") != 1 {
		t.Errorf("a mistake: %q", text)
	}
}
