package loadgen

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

// pace tells all workers of a run when the next request is due.
type pace struct {
	ctx   context.Context // ends the run
	end   context.CancelFunc
	begun time.Time
	until time.Time // zero: no end
	count int64     // 0: no end
	rate  float64   // 0: no limit
	sent  atomic.Int64
}

func newPace(ctx context.Context, cfg *Config) *pace {
	p := &pace{begun: time.Now(), count: cfg.Count, rate: cfg.Rate}
	p.ctx, p.end = context.WithCancel(ctx)
	if cfg.Duration > 0 {
		p.until = p.begun.Add(cfg.Duration)
	}
	return p
}

// next waits until a request is due, and returns that time. It is in the past
// if the workers cannot keep up; zero means now. ok is false when the run is
// over.
func (p *pace) next() (due time.Time, ok bool) {
	if p.ctx.Err() != nil {
		return due, false
	}
	n := p.sent.Add(1) - 1
	if p.count > 0 && n >= p.count {
		return due, false
	}
	if p.rate == 0 {
		return due, p.until.IsZero() || time.Now().Before(p.until)
	}
	due = p.begun.Add(time.Duration(min(float64(n)/p.rate*float64(time.Second), longest)))
	if !p.until.IsZero() && !due.Before(p.until) {
		return due, false
	}
	if !time.Now().Before(due) {
		// An open loop that has fallen behind sends all overdue requests, but
		// only until the end of the run.
		return due, p.until.IsZero() || time.Now().Before(p.until)
	}
	return due, p.sleep(due)
}

// sleep waits until a time, and reports whether the run still goes on. Timers
// wake an idle Go program up to a millisecond late, because epoll counts in
// milliseconds, and an open loop would charge that to the cluster. So the last
// stretch is the kernel's nanosleep.
func (p *pace) sleep(until time.Time) bool {
	if !p.timer(time.Until(until) - timerSlack) {
		return false
	}
	if rest := time.Until(until); rest > 0 {
		ts := syscall.NsecToTimespec(rest.Nanoseconds())
		if err := syscall.Nanosleep(&ts, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return p.timer(rest)
		}
	}
	// Signals of the Go runtime interrupt a nanosleep.
	return p.timer(time.Until(until))
}

// timerSlack is how late a timer may be.
const timerSlack = 1100 * time.Microsecond

// timer waits for d, and reports whether the run still goes on.
func (p *pace) timer(d time.Duration) bool {
	if d <= 0 {
		return p.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// longest is longer than any run, in nanoseconds. A rate far below one gives
// longer times, which do not fit a time.Duration.
const longest = float64(1 << 62)

// stop ends the run for all workers.
func (p *pace) stop() { p.end() }
