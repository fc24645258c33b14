package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kring/cli"
)

// raceEnd keeps a program with the race detector from sleeping for a second
// when it exits.
const raceEnd = "atexit_sleep_ms=10"

func TestMain(m *testing.M) {
	if err := os.Setenv("GORACE", raceEnd); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"kring": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the scripts in testdata, with these commands:
//
//	fails CODE PATTERN ARGS…         kring ARGS ends with CODE and one line on stderr
//	becomes CODE PATTERN ARGS…       the same, now or soon, with anything on stdout
//	start NAME ARGS…                 kring ARGS becomes ready; $NAME is then its URL
//	signal NAME SIGNAL               sends TERM, INT or HUP
//	ended NAME CODE [PATTERN]        it ends with CODE, and stderr matches
//	says NAME PATTERN                stderr matches now or soon
//	fetch METHOD URL STATUS [PATTERN [BODY]]
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Values["processes"] = map[string]*process{}
			e.Setenv("GORACE", raceEnd)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fails": fails, "becomes": becomes, "start": start, "signal": signalProcess, "ended": ended, "says": says, "fetch": fetch,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: fails CODE PATTERN ARGS…")
	}
	cmd := command(ts, args[2:])
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := runWithin(cmd)
	if code := exitCode(ts, err); strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s; stdout %q, stderr %q", code, args[0], stdout.String(), stderr.String())
	}
	text := stderr.String()
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "kring: ") || stdout.Len() > 0 {
		ts.Fatalf("want one line on stderr and nothing on stdout; stdout %q, stderr %q", stdout.String(), text)
	}
	match(ts, args[1], text)
}

func becomes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: becomes CODE PATTERN ARGS…")
	}
	re := regexp.MustCompile(args[1])
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		cmd := command(ts, args[2:])
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		code := exitCode(ts, runWithin(cmd))
		if strconv.Itoa(code) == args[0] && re.MatchString(stderr.String()) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("exit code %d, want %s; %q does not match %s", code, args[0], stderr.String(), args[1])
		}
	}
}

func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command("kring", args...)
	cmd.Dir = ts.MkAbs(".")
	// Without GOCOVERDIR a binary built for coverage complains on stderr.
	cmd.Env = append(cmd.Env, "GOCOVERDIR="+ts.Getenv("WORK"), "GORACE="+raceEnd)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "KRING_NODE_ID", "KRING_NODE_LISTEN", "KRING_LISTEN", "KRING_CACHE_MAX_BYTES", "KRING_CACHE_MAXBYTES", "KRING_CLUSTER_SECRET", "KRING_CLUSTER_SECRET_FILE", "KRING_LOG_LEVEL", "KRING_TOKEN"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

// runWithin runs a command that must end by itself within patience.
func runWithin(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // the process may have ended
	err := cmd.Wait()
	if !late.Stop() {
		return fmt.Errorf("%v did not end within %v", cmd.Args, patience)
	}
	return err
}

func exitCode(ts *testscript.TestScript, err error) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		ts.Fatalf("run kring: %v", err)
	}
	return exit.ExitCode()
}

func match(ts *testscript.TestScript, pattern, text string) {
	re, err := regexp.Compile(pattern)
	ts.Check(err)
	if !re.MatchString(text) {
		ts.Fatalf("%q does not match %s", text, pattern)
	}
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME ARGS…")
	}
	p, err := launch(command(ts, args[1:]))
	ts.Check(err)
	ts.Defer(p.kill)
	ts.Logf("%s", p.ready)
	ts.Setenv(args[0], p.url)
	ts.Value("processes").(map[string]*process)[args[0]] = p
}

func running(ts *testscript.TestScript, name string) *process {
	p := ts.Value("processes").(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("%s was not started", name)
	}
	return p
}

func signalProcess(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME SIGNAL")
	}
	s, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}[args[1]]
	if !ok {
		ts.Fatalf("unknown signal %s", args[1])
	}
	ts.Check(running(ts, args[0]).cmd.Process.Signal(s))
}

func ended(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: ended NAME CODE [PATTERN]")
	}
	p := running(ts, args[0])
	code, err := p.wait()
	ts.Check(err)
	if strconv.Itoa(code) != args[1] {
		ts.Fatalf("exit code %d, want %s; stderr %q", code, args[1], p.stderr.String())
	}
	if len(args) == 3 {
		match(ts, args[2], p.stderr.String())
	}
}

func says(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: says NAME PATTERN")
	}
	p, re := running(ts, args[0]), regexp.MustCompile(args[1])
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !re.MatchString(p.stderr.String()); <-tick.C {
		if time.Now().After(deadline) {
			ts.Fatalf("%q does not match %s", p.stderr.String(), args[1])
		}
	}
}

func fetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 5 {
		ts.Fatalf("usage: fetch METHOD URL STATUS [PATTERN [BODY]]")
	}
	body := ""
	if len(args) == 5 {
		body = args[4]
	}
	request, err := http.NewRequest(args[0], args[1], strings.NewReader(body))
	ts.Check(err)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	ts.Check(err)
	if strconv.Itoa(response.StatusCode) != args[2] {
		ts.Fatalf("status %d, want %s: %q", response.StatusCode, args[2], text)
	}
	if len(args) > 3 {
		match(ts, args[3], string(text))
	}
}
