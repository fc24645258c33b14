package loadgen

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

// pace says when the next request is due, to all workers of a run.
type pace struct {
	ctx   context.Context // ends the run
	end   context.CancelFunc
	begun time.Time
	until time.Time // zero: no end
	count int64     // 0: no end
	rate  float64   // 0: at once
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

// next waits until a request is due and says when that was, which is in the
// past if the workers cannot keep up; zero means now. ok is false when the run
// is over.
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
		// An open loop that has fallen behind sends all that is overdue, but
		// not for longer than the run was meant to last.
		return due, p.until.IsZero() || time.Now().Before(p.until)
	}
	return due, p.sleep(due)
}

// sleep waits until a time, and reports whether the run still goes on then. An
// idle Go program is woken from its timers up to a millisecond late, because
// epoll counts in milliseconds, and an open loop would charge the cluster for
// that: the last stretch is the kernel's nanosleep.
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
	// The runtime's own signals cut a nanosleep short.
	return p.timer(time.Until(until))
}

// timerSlack is how late a timer may be.
const timerSlack = 1100 * time.Microsecond

// timer waits so long, and reports whether the run still goes on then.
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

// longest is a time that no run lasts, in nanoseconds: of a rate far below one,
// what is beyond it would not be a time.Duration.
const longest = float64(1 << 62)

// stop ends the run for all workers.
func (p *pace) stop() { p.end() }
