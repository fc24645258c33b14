package balance

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
)

// maxDoublings bounds an ejection to 32 times the configured fail_timeout.
const maxDoublings = 5

// health is what requests and probes have shown of an endpoint, and the state
// of its ejection. The pool's mutex guards it.
//
// A single failure proves little, so max_fails in a row are needed. An ejection
// is a guess about the future that costs requests when it is wrong, in both
// directions. So an ejected endpoint comes back by itself, through one trial
// request or a good probe, and waits longer each time the trial fails. All
// nodes guess alone; the random part of the time keeps them from trying a sick
// endpoint all at once. Results that are older than the last change of state
// are dropped: they say nothing about the state that follows.
type health struct {
	fails      int // failed requests in a row
	probeFails int // failed probes in a row

	// failing says that max_fails was reached, and that no success has
	// followed. A failing endpoint is ejected, unless max_ejected keeps it or
	// no endpoint is healthy.
	failing   bool
	since     time.Time     // when the failing began
	kept      bool          // max_ejected keeps it; rebuildLocked decides
	until     time.Time     // when the present ejection ends
	lasted    time.Duration // how long the last ejection was meant to last
	returned  time.Time     // when the last ejection ended
	doublings int
	// trialOut says that the trial is under way: the one request that an
	// ejected endpoint gets when its time is over. Its outcome decides.
	trialOut bool
}

// Blames reports whether an answer with this status counts as a failure of the
// endpoint that gave it.
func (p *Pool) Blames(status int) bool { return slices.Contains(p.cfg.Health.FailStatuses, status) }

// claim makes a pick of m final, from a set with members on trial. It fails if
// m is on trial and another pick has taken the trial.
func (p *Pool) claim(m *member) (generation uint64, trial, ok bool) {
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
	generation = m.generation.Load()
	p.mu.Unlock()
	n.log(p.log)
	return generation, trial, true
}

// observe records the outcome of a pick.
func (p *Pool) observe(m *member, generation uint64, trial bool, o Outcome) {
	switch {
	case o == Success && !m.suspect.Load():
		return
	case o == Cancelled && !trial:
		return
	}
	now := time.Now()
	p.mu.Lock()
	// A pick of an earlier generation says nothing about the present. Failures
	// that were under way when the endpoint was ejected must not lengthen the
	// ejection, and late successes must not end it.
	if generation != m.generation.Load() {
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

// concludeLocked ejects m if there is a reason, rebuilds the set, unlocks, and
// only then logs.
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

// observeProbe records the outcome of a probe. Probes and requests are counted
// apart: a good probe must not hide that requests fail.
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

// ejectLocked takes m out. The time doubles, up to 32 times fail_timeout, after
// a failed trial, and after a relapse before m has been back for as long as it
// was out. A random fifth is added or taken off, so that the nodes do not try
// again all at once. Nothing else lengthens an ejection. Failures in a panic,
// or while max_ejected keeps m, say only that m has not recovered, and a probe
// costs no request.
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
	m.generation.Add(1)
}

// ejectedNoteLocked says whether m was really ejected, or is still picked.
func (p *Pool) ejectedNoteLocked(m *member, why string, now time.Time) note {
	args := []any{"pool", p.cfg.Name, "endpoint", m.endpoint.Name, "reason", why}
	switch {
	case p.set.Load().panic:
		return note{slog.LevelWarn, "endpoint fails, but is picked: no endpoint is healthy", args}
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
	m.generation.Add(1)
	return note{slog.LevelInfo, "endpoint is back", []any{"pool", p.cfg.Name, "endpoint", m.endpoint.Name}}
}
