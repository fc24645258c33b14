package loadgen

import (
	"context"
	"sync/atomic"
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
	due = p.begun.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	if !p.until.IsZero() && !due.Before(p.until) {
		return due, false
	}
	wait := time.Until(due)
	if wait <= 0 {
		// An open loop that has fallen behind sends all that is overdue, but
		// not for longer than the run was meant to last.
		return due, p.until.IsZero() || time.Now().Before(p.until)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return due, true
	case <-p.ctx.Done():
		return due, false
	}
}

// stop ends the run for all workers.
func (p *pace) stop() { p.end() }
