package balance

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"time"
)

// set is an immutable list of what may be picked, in the configuration's order.
type set struct {
	seats []seat
	total int64 // of the weights
	// generation counts the changes of the list of members and their weights.
	generation uint64
	// absent names the pool's members that have no seat.
	absent  []string
	panic   bool
	trials  bool      // some members are on trial
	ramps   bool      // some members are limited by slow start
	changes time.Time // when the set must be rebuilt; zero: at no known time
}

// seat is a member in a set, with its weight when the set was built.
type seat struct {
	m      *member
	weight int64
	step   int64 // the cost of an assignment: less for a greater weight
	rank   int   // place among the members' names in byte order
}

// without is s without the endpoints of these names. An empty name is ignored.
func (s *set) without(names ...string) *set {
	t := s
	for _, name := range names {
		if name == "" {
			continue
		}
		old := t
		t = &set{generation: s.generation, panic: s.panic, trials: s.trials, ramps: s.ramps}
		t.absent = append(append(t.absent, old.absent...), name)
		for _, seat := range old.seats {
			if seat.m.endpoint.Name != name {
				t.seats = append(t.seats, seat)
				t.total += seat.weight
			}
		}
	}
	return t
}

// find is the member of this name, or nil.
func (s *set) find(name string) *member {
	for i := range s.seats {
		if s.seats[i].m.endpoint.Name == name {
			return s.seats[i].m
		}
	}
	return nil
}

// pickable is the current set. It reads the clock only while an endpoint is
// ejected or in slow start.
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

// rebuildLocked builds the set from the members. The caller logs the note after
// it has unlocked.
func (p *Pool) rebuildLocked(now time.Time) note {
	eligible, failing := p.keepLocked()
	s := &set{generation: p.generation, panic: failing > 0 && failing == eligible}
	var entering []*member
	for i, m := range p.members {
		if !p.seatLocked(m, s, now) {
			m.seated = false
			s.absent = append(s.absent, m.endpoint.Name)
			continue
		}
		if !m.seated {
			m.seated = true
			entering = append(entering, m)
		}
		s.seats = append(s.seats, seat{m: m, weight: m.weight, step: p.steps[i], rank: p.ranks[i]})
		s.total += m.weight
	}
	old := p.set.Swap(s)
	if len(entering) > 0 {
		p.policy.enter(entering, s)
	}
	if s.panic == (old != nil && old.panic) {
		return note{}
	}
	if s.panic {
		return note{slog.LevelWarn, "pool panics: no endpoint is healthy, picking among all that are eligible", []any{"pool", p.cfg.Name, "eligible", eligible}}
	}
	return note{slog.LevelInfo, "pool no longer panics", []any{"pool", p.cfg.Name}}
}

// keepLocked counts the eligible members and the failing ones among them. It
// marks the members that max_ejected keeps: those that began to fail last.
func (p *Pool) keepLocked() (eligible, failing int) {
	var bad []*member
	for _, m := range p.members {
		m.kept = false
		if m.pickable() {
			eligible++
			if m.failing {
				bad = append(bad, m)
			}
		}
	}
	slices.SortStableFunc(bad, func(a, b *member) int { return a.since.Compare(b.since) })
	for i := maxEjected(p.cfg.MaxEjected, eligible); i < len(bad); i++ {
		bad[i].kept = true
	}
	return eligible, len(bad)
}

// seatLocked reports whether m gets a seat in s, and records in s when that may
// change.
func (p *Pool) seatLocked(m *member, s *set, now time.Time) bool {
	if !m.pickable() {
		return false
	}
	if m.failing && !m.kept && !s.panic {
		switch {
		case now.Before(m.until):
			s.changeAt(m.until)
			return false
		case m.trialOut || p.cfg.Health.Probe != "":
			return false // the running trial, or the next probe, decides
		}
		s.trials = true
	}
	if !m.ramp.IsZero() {
		if end := m.ramp.Add(p.cfg.SlowStart); now.Before(end) {
			s.ramps = true
			s.changeAt(end)
		} else {
			m.ramp = time.Time{}
		}
	}
	return true
}

func (s *set) changeAt(t time.Time) {
	if s.changes.IsZero() || t.Before(s.changes) {
		s.changes = t
	}
}

// maxEjected is how many of n eligible endpoints may be ejected: the share,
// rounded up. Weights do not count. The tiny subtrahend undoes the
// floating-point error of shares such as 0.07 × 100.
func maxEjected(share float64, n int) int {
	return int(math.Ceil(share*float64(n) - 1e-9))
}

// note is a log line that is written after the lock is released.
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
