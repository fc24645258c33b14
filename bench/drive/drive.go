//go:build linux

package drive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Request is a request and its expected answer: status 200 and a body of this
// length.
type Request struct {
	Bytes []byte
	// Length is the body's length in bytes. The body may be longer by up to
	// Slack.
	Length, Slack int
	// Mark must occur in the body Marks times, unless it is empty.
	Mark  []byte
	Marks int
}

// Get is the request for a path whose value has this length.
func Get(host, path string, length int) Request {
	return Request{Bytes: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host), Length: length}
}

// check says what is wrong with an answer.
func (r *Request) check(p *parser) error {
	if p.status != 200 {
		return fmt.Errorf("status %d", p.status)
	}
	if p.length < r.Length || p.length > r.Length+r.Slack {
		return fmt.Errorf("%d bytes, want %d (and at most %d more)", p.length, r.Length, r.Slack)
	}
	if len(r.Mark) > 0 {
		if n := bytes.Count(p.body, r.Mark); n != r.Marks {
			return fmt.Errorf("%q is there %d times, want %d", r.Mark, n, r.Marks)
		}
	}
	return nil
}

// Target is a server and its requests.
type Target struct {
	Addr     string // IPv4 address and port
	Requests []Request
	// Next, if set, returns the requests, each once. Several goroutines call
	// it.
	Next func() *Request
}

// Config is the settings of a run.
type Config struct {
	// Targets get the connections in turn. Each connection sends random
	// requests of one target.
	Targets     []Target
	Connections int
	// Threads share the connections.
	Threads int
	// CPU is the core of all threads; negative: any core.
	CPU int
	// Duration is how long new requests are sent. Count, if not 0, bounds the
	// requests of each connection.
	Duration time.Duration
	Count    int
	Seed     uint64
}

// Result is the result of a run.
type Result struct {
	Requests   int64 // answered correctly
	Wrong      int64 // another status or length, or a broken answer
	Reconnects int64 // after an answer that closed its connection
	Elapsed    time.Duration
	P50, P99   time.Duration
	// Sample is one of the wrong answers, as an error.
	Sample error
}

// RPS is requests a second.
func (r *Result) RPS() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Elapsed.Seconds()
}

// drainTime is how long the last answers may take after the end of the run.
const drainTime = 10 * time.Second

// Run sends requests until the time is over or the context ends, and waits for
// all answers.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if len(cfg.Targets) == 0 || cfg.Connections < 1 || cfg.Threads < 1 {
		return Result{}, errors.New("drive: no targets, connections or threads")
	}
	loops := make([]*loop, min(cfg.Threads, cfg.Connections))
	for i := range loops {
		l, err := newLoop(cfg, i)
		if err != nil {
			return Result{}, errors.Join(err, closeAll(loops[:i]))
		}
		loops[i] = l
	}
	for i := range cfg.Connections {
		t := &cfg.Targets[i%len(cfg.Targets)]
		addr, err := netip.ParseAddrPort(t.Addr)
		if err == nil {
			err = loops[i%len(loops)].open(t, addr)
		}
		if err != nil {
			return Result{}, errors.Join(fmt.Errorf("drive: connect to %s: %w", t.Addr, err), closeAll(loops))
		}
	}
	var wait sync.WaitGroup
	begin := time.Now()
	for _, l := range loops {
		wait.Go(func() { l.run(ctx, begin.Add(cfg.Duration)) })
	}
	wait.Wait()
	return join(loops, begin), closeAll(loops)
}

// join adds up the counters of the loops.
func join(loops []*loop, begin time.Time) Result {
	var r Result
	var last time.Time
	all := hdrhistogram.New(1, histogramMax, 3)
	for _, l := range loops {
		r.Requests += l.right
		r.Wrong += l.wrong
		r.Reconnects += l.reconnects
		if r.Sample == nil {
			r.Sample = l.sample
		}
		if l.last.After(last) {
			last = l.last
		}
		all.Merge(l.latency)
	}
	r.Elapsed = last.Sub(begin)
	r.P50 = time.Duration(all.ValueAtPercentile(50)) * time.Microsecond
	r.P99 = time.Duration(all.ValueAtPercentile(99)) * time.Microsecond
	return r
}

func closeAll(loops []*loop) error {
	var errs []error
	for _, l := range loops {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
