package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"kring/internal/testlog"
)

// patience bounds waits on a busy machine.
const patience = 30 * time.Second

// process is a running kring that is ready.
type process struct {
	cmd    *exec.Cmd
	ready  string // the ready line
	url    string // in it
	stderr testlog.Buffer
	done   chan error
}

// launch starts a command and waits for its ready line.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan error, 1)}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &p.stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		r := bufio.NewReader(stdout)
		line, err := r.ReadString('\n')
		ready <- line
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		p.done <- errors.Join(err, cmd.Wait())
		close(p.done)
	}()
	select {
	case line := <-ready:
		p.ready = strings.TrimSpace(line)
	case <-time.After(patience):
	}
	if p.url = regexp.MustCompile(`http://[^ ]+`).FindString(p.ready); p.url == "" {
		p.kill()
		return nil, fmt.Errorf("%v has no ready line; stdout %q, stderr %q", cmd.Args, p.ready, p.stderr.String())
	}
	return p, nil
}

// kill ends the process if it still runs.
func (p *process) kill() {
	if err := p.cmd.Process.Kill(); err == nil {
		<-p.done
	}
}

// wait returns the exit code.
func (p *process) wait() (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return 0, fmt.Errorf("it did not end; stderr %q", p.stderr.String())
	}
}

func (p *process) ends(t *testing.T, code int) {
	t.Helper()
	if got, err := p.wait(); err != nil || got != code {
		t.Errorf("exit code %d (%v), want %d; stderr %q", got, err, code, p.stderr.String())
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
