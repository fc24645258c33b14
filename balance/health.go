package balance

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
)

// maxDoublings bounds an ejection to 32 times the configured fail_timeout.
const maxDoublings = 5

// health is what requests and probes have shown of an endpoint. The pool's
// mutex guards it.
type health struct {
	fails      int // requests in a row that failed
	probeFails int // probes in a row that failed

	// failing says that max_fails was reached, and that nothing has shown since
	// that the endpoint is well. Such an endpoint is ejected, unless max_ejected
	// keeps it or none is healthy.
	failing   bool
	since     time.Time     // when that began
	kept      bool          // max_ejected keeps it; rebuildLocked decides
	until     time.Time     // when the present ejection ends
	lasted    time.Duration // how long it was meant to last
	returned  time.Time     // when the last one was over
	doublings int
	// trialOut says that the one request is under way that an ejected endpoint
	// gets when its time is over, and that decides about it.
	trialOut bool
}

// Blames reports whether an answer with this status counts as a failure of the
// endpoint that gave it.
func (p *Pool) Blames(status int) bool { return slices.Contains(p.cfg.Health.FailStatuses, status) }

// claim makes a pick of m, from a set with trials in it, final. It fails if m
// is on trial and another pick was first.
func (p *Pool) claim(m *member) (epoch uint64, trial, ok bool) {
	p.mu.Lock()
	trial = m.failing && !m.kept
	if trial && m.trialOut {
		p.mu.Unlock()
		return 0, false, false
	}
	var n note
	if trial {
		m.trialOut = true
		n = p.rebuildLocked(time.Now())
	}
	epoch = m.epoch.Load()
	p.mu.Unlock()
	n.log(p.log)
	return epoch, trial, true
}

// observe takes in the outcome of a pick.
func (p *Pool) observe(m *member, epoch uint64, trial bool, o Outcome) {
	switch {
	case o == Success && !m.suspect.Load():
		return
	case o == Cancelled && !trial:
		return
	}
	now := time.Now()
	p.mu.Lock()
	// A pick older than health's last change of mind says nothing about the
	// present: failures that were under way when an endpoint was ejected must
	// not lengthen its ejection, late successes must not end it.
	if epoch != m.epoch.Load() {
		p.mu.Unlock()
		return
	}
	if trial {
		m.trialOut = false
	}
	var n note
	ejected := "" // why
	switch {
	case o == Success && m.failing:
		n = p.restoreLocked(m, now)
	case o == Success:
		m.fails = 0
		m.suspect.Store(m.probeFails > 0)
	case o == Failure && trial && m.failing && !now.Before(m.until):
		ejected = "failed its trial"
	case o == Failure && !m.failing:
		m.fails++
		m.suspect.Store(true)
		if p.tooMany(m.fails) {
			ejected = "requests failed"
		}
	}
	p.concludeLocked(m, ejected, n, now)
}

// concludeLocked ejects m if there is a reason, makes the set anew, gives the
// lock back, and only then logs.
func (p *Pool) concludeLocked(m *member, ejected string, n note, now time.Time) {
	if ejected != "" {
		p.ejectLocked(m, now)
	}
	panics := p.rebuildLocked(now)
	if ejected != "" {
		n = p.ejectedNoteLocked(m, ejected, now)
	}
	p.mu.Unlock()
	n.log(p.log)
	panics.log(p.log)
}

// observeProbe takes in the outcome of a probe. Probes and requests are
// counted apart: a good probe must not hide that requests fail.
func (p *Pool) observeProbe(m *member, good bool) {
	now := time.Now()
	p.mu.Lock()
	var n note
	ejected := "" // why
	switch {
	case m.candidate:
		n = p.considerLocked(m, good, now)
	case good:
		m.probeFails = 0
		m.suspect.Store(m.failing || m.fails > 0)
		if m.failing && !now.Before(m.until) {
			n = p.restoreLocked(m, now)
		}
	case !m.failing:
		m.probeFails++
		m.suspect.Store(true)
		if p.tooMany(m.probeFails) {
			ejected = "probes failed"
		}
	}
	p.concludeLocked(m, ejected, n, now)
}

// considerLocked admits a candidate after enough good probes in a row.
func (p *Pool) considerLocked(m *member, good bool, now time.Time) note {
	if !good {
		m.good = 0
		return note{}
	}
	if m.good++; m.good < goodProbes {
		return note{}
	}
	m.candidate = false
	if p.cfg.SlowStart > 0 {
		m.ramp = now
	}
	return note{slog.LevelInfo, "endpoint admitted", []any{"pool", p.cfg.Name, "endpoint", m.endpoint.Name}}
}

func (p *Pool) tooMany(fails int) bool {
	limit := p.cfg.Health.MaxFails
	return limit > 0 && fails >= limit
}

// ejectLocked takes m out. A failed trial, and a relapse before m has been back
// for as long as it was out, double the time, up to 32 times fail_timeout; a
// random fifth is added or taken off, so that nodes do not try again all at
// once. Nothing else makes an ejection longer: failures while no endpoint is
// healthy, or while max_ejected keeps m, say only that it has not recovered, and
// a probe costs no request.
func (p *Pool) ejectLocked(m *member, now time.Time) {
	switch {
	case m.lasted == 0 || !m.failing && now.Sub(m.returned) >= m.lasted:
		m.doublings = 0
	case m.doublings < maxDoublings:
		m.doublings++
	}
	d := p.cfg.Health.FailTimeout << m.doublings
	d += time.Duration((rand.Float64()*0.4 - 0.2) * float64(d))
	if !m.failing {
		m.failing, m.since = true, now
	}
	m.trialOut = false
	m.ramp = time.Time{}
	m.lasted, m.until = d, now.Add(d)
	m.fails, m.probeFails = 0, 0
	m.suspect.Store(true)
	m.epoch.Add(1)
}

// ejectedNoteLocked says what became of m when it was to be ejected.
func (p *Pool) ejectedNoteLocked(m *member, why string, now time.Time) note {
	args := []any{"pool", p.cfg.Name, "endpoint", m.endpoint.Name, "reason", why}
	switch {
	case p.set.Load().panic:
		return note{slog.LevelWarn, "endpoint fails, but is picked: none is healthy", args}
	case m.kept:
		return note{slog.LevelWarn, "endpoint fails, but is kept by max_ejected", args}
	}
	return note{slog.LevelWarn, "endpoint ejected", append(args, "for", m.until.Sub(now).Round(time.Millisecond))}
}

func (p *Pool) restoreLocked(m *member, now time.Time) note {
	m.failing, m.trialOut = false, false
	m.returned = now
	if p.cfg.SlowStart > 0 {
		m.ramp = now
	}
	m.fails, m.probeFails = 0, 0
	m.suspect.Store(false)
	m.epoch.Add(1)
	return note{slog.LevelInfo, "endpoint is back", []any{"pool", p.cfg.Name, "endpoint", m.endpoint.Name}}
}
