//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	startTime = 20 * time.Second // until a server answers
	stopTime  = 10 * time.Second // until a server has ended
)

// stage starts servers, and ends them.
type stage struct {
	dir string // for their configuration, data and logs
	// cpu is the core of servers and loader; negative: any core.
	cpu   int
	begin chan func()

	mu    sync.Mutex // guards procs
	procs []*process
	names int
}

// process is a server that a stage has started.
type process struct {
	name string
	pid  int
	log  string
	done chan struct{} // closed after its end
}

// newStage makes a stage. The caller must close it.
func newStage(dir string, cpu int) *stage {
	s := &stage{dir: dir, cpu: cpu, begin: make(chan func())}
	go func() {
		// The kernel ends a process with Pdeathsig when the thread that started
		// it ends. So one thread starts them all, and ends last.
		runtime.LockOSThread()
		for f := range s.begin {
			f()
		}
	}()
	return s
}

// cores is how many cores the servers may use.
func (s *stage) cores() int {
	if s.cpu >= 0 {
		return 1
	}
	return runtime.NumCPU()
}

// folder makes a fresh directory for a server.
func (s *stage) folder(name string) (string, error) {
	s.mu.Lock()
	s.names++
	dir := filepath.Join(s.dir, fmt.Sprintf("%02d-%s", s.names, fileName(name)))
	s.mu.Unlock()
	return dir, os.MkdirAll(dir, 0o755)
}

// fileName turns a name into a part of a path.
func fileName(name string) string {
	return strings.NewReplacer(",", "", " ", "-", "/", "-").Replace(name)
}

// start runs a server in the foreground. The kernel ends it if this process is
// killed.
func (s *stage) start(dir, name string, args ...string) (*process, error) {
	if s.cpu >= 0 {
		args = append([]string{"taskset", "-c", strconv.Itoa(s.cpu)}, args...)
	}
	p := &process{name: name, log: filepath.Join(dir, "log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	started := make(chan error)
	s.begin <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), out.Close())
	}
	p.pid = cmd.Process.Pid
	go func() {
		defer close(p.done)
		// The server's log has its exit; here only its end matters.
		_ = cmd.Wait()
		_ = out.Close()
	}()
	s.mu.Lock()
	s.procs = append(s.procs, p)
	s.mu.Unlock()
	return p, nil
}

// close ends all servers, the last one first.
func (s *stage) close() error {
	defer close(s.begin)
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i := len(s.procs) - 1; i >= 0; i-- {
		errs = append(errs, s.procs[i].stop())
	}
	s.procs = nil
	return errors.Join(errs...)
}

// stop ends the server with a signal, and then by force.
func (p *process) stop() error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		// The signal goes to the group, so that a killed master leaves no
		// workers behind.
		if err := syscall.Kill(-p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s: %w", p.name, err)
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(stopTime):
		}
	}
	return fmt.Errorf("stop %s: process %d does not end", p.name, p.pid)
}

// ended says why a server has ended; nil while it runs.
func (p *process) ended() error {
	select {
	case <-p.done:
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s has ended: %s", p.name, strings.TrimSpace(string(text)))
	default:
		return nil
	}
}

// waitFor requests a URL until the answer is 200.
func (p *process) waitFor(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := p.ended(); err != nil {
			return err
		}
		last := ask(ctx, url)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer %s: %w", p.name, url, last)
		}
	}
}

func ask(ctx context.Context, url string) error {
	_, err := fetch(ctx, http.MethodGet, url, "", nil)
	return err
}

// freePorts are addresses of 127.0.0.1 without a listener.
func freePorts(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// The listeners close after all ports are found: else one port might be
		// found twice.
		defer func() { err = errors.Join(err, l.Close()) }()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// cpuTime is the CPU time of processes and their descendants so far. It reads
// their clocks, which count nanoseconds; /proc counts only hundredths of a
// second.
func cpuTime(procs []*process) (time.Duration, error) {
	children, err := descendants()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	var add func(pid int) error
	add = func(pid int) error {
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil {
			return fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
		for _, child := range children[pid] {
			if err := add(child); err != nil {
				return err
			}
		}
		return nil
	}
	for _, p := range procs {
		if err := add(p.pid); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// descendants maps each process to its children.
func descendants() (map[int][]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		pid, parent, ok := parseStat(string(text))
		if ok {
			children[parent] = append(children[parent], pid)
		}
	}
	return children, nil
}

// parseStat reads the process and its parent from a line of /proc/PID/stat. The
// name between them may contain anything, parentheses and spaces included.
func parseStat(line string) (pid, parent int, ok bool) {
	before, _, found := strings.Cut(line, " (")
	i := strings.LastIndex(line, ") ")
	if !found || i < 0 {
		return 0, 0, false
	}
	fields := strings.Fields(line[i+2:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	pid, err := strconv.Atoi(before)
	if err != nil {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return pid, parent, err == nil
}
