package balance

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// member is an endpoint in a pool. Order, weight and endpoint never change.
type member struct {
	endpoint Endpoint
	order    int // place in the configuration; stays when others are removed
	weight   int64

	// current belongs to the pool's policy, which writes it under its own
	// lock: the current weight, or what is left of a turn. It is atomic so
	// that status can read it.
	current atomic.Int64

	assigned atomic.Int64
	inFlight atomic.Int64
	// epoch is the number of times that health has changed its mind. What a
	// pick of an earlier epoch learns is no longer news.
	epoch atomic.Uint64
	// suspect is false while a success would teach nothing, so that it need
	// not take the pool's lock.
	suspect atomic.Bool

	// The pool's mutex guards what follows.
	eligible bool
	removed  bool
	health
}

// set is what may be picked, frozen: the members in the configuration's order.
type set struct {
	members []*member
	total   int64 // of the weights
	panic   bool
	trials  bool      // some members are here on trial
	changes time.Time // when the next ejection ends; zero: nothing to wait for
}

// without is s less one endpoint.
func (s *set) without(name string) *set {
	t := &set{panic: s.panic, trials: s.trials}
	for _, m := range s.members {
		if m.endpoint.Name != name {
			t.members = append(t.members, m)
			t.total += m.weight
		}
	}
	return t
}

// pickable is the present set; it looks at the clock only while something is
// ejected.
func (p *Pool) pickable() *set {
	s := p.set.Load()
	if s.changes.IsZero() || time.Now().Before(s.changes) {
		return s
	}
	return p.rebuild()
}

func (p *Pool) rebuild() *set {
	p.mu.Lock()
	note := p.rebuildLocked(time.Now())
	s := p.set.Load()
	p.mu.Unlock()
	note.log(p.log)
	return s
}

// rebuildLocked makes the set from the members. What it returns is to be
// logged after the lock is given back.
func (p *Pool) rebuildLocked(now time.Time) note {
	s := &set{}
	eligible, ejected := 0, 0
	for _, m := range p.members {
		if m.pickable() {
			eligible++
			if m.ejected {
				ejected++
			}
		}
	}
	s.panic = ejected > maxEjected(p.cfg.MaxEjected, eligible)
	for _, m := range p.members {
		if !m.pickable() {
			continue
		}
		if m.ejected && !s.panic {
			switch {
			case now.Before(m.until):
				if s.changes.IsZero() || m.until.Before(s.changes) {
					s.changes = m.until
				}
				continue
			case m.trialOut || p.cfg.Health.Probe != "":
				continue // a running trial, or the next probe, decides
			}
			s.trials = true
		}
		s.members = append(s.members, m)
		s.total += m.weight
	}
	old := p.set.Swap(s)
	if s.panic == (old != nil && old.panic) {
		return note{}
	}
	if s.panic {
		return note{slog.LevelWarn, "pool panics: too many endpoints are unhealthy, picking among all", []any{"pool", p.cfg.Name, "ejected", ejected, "eligible", eligible}}
	}
	return note{slog.LevelInfo, "pool no longer panics", []any{"pool", p.cfg.Name}}
}

// pickable reports whether configuration and operator allow m.
func (m *member) pickable() bool { return m.eligible && m.weight > 0 }

// maxEjected is how many of n eligible endpoints may be out: the share,
// rounded down, and never all of them. The small addend undoes the rounding of
// shares such as 0.29 × 100.
func maxEjected(share float64, n int) int {
	return max(0, min(int(share*float64(n)+1e-9), n-1))
}

// note is a log line that waits until no lock is held.
type note struct {
	level slog.Level
	msg   string
	args  []any
}

func (n note) log(l *slog.Logger) {
	if n.msg != "" {
		l.Log(context.Background(), n.level, n.msg, n.args...)
	}
}
