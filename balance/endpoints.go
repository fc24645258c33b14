package balance

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// EndpointChange is what PutEndpoint sets. A nil field leaves the setting
// unchanged.
type EndpointChange struct {
	URL      *string `json:"url,omitempty"`
	Weight   *int    `json:"weight,omitempty"`
	Eligible *bool   `json:"eligible,omitempty"`
}

// ChangeError says what is wrong with a change. The text is safe to show to a
// client.
type ChangeError struct{ Problem string }

func (e *ChangeError) Error() string { return e.Problem }

// ErrTooManyEndpoints says that the pool has MaxEndpoints endpoints.
var ErrTooManyEndpoints = fmt.Errorf("a pool has at most %d endpoints", MaxEndpoints)

// maxDeparted bounds the removed endpoints whose counts are kept.
const maxDeparted = MaxEndpoints

// departed keeps the counts of a removed endpoint.
type departed struct {
	*tally
	at time.Time
}

// PutEndpoint adds an endpoint or changes one, and reports whether it is new. A
// new endpoint has weight 1 and is eligible unless the change says otherwise. A
// new endpoint, or one with another URL, is a candidate until the rules of
// admission hold: its host is allowed, the operator wants it eligible, and, in
// a pool with probes, two probes in a row were good. In a pool with shared
// state the change reaches all processes.
//
// Errors are *ChangeError, ErrTooManyEndpoints and ErrUnshared. After an error
// nothing has changed.
func (p *Pool) PutEndpoint(ctx context.Context, name string, c EndpointChange) (created bool, err error) {
	if err := p.checkChange(name, c); err != nil {
		return false, err
	}
	if p.shared != nil {
		p.shared.changing.Lock()
		defer p.shared.changing.Unlock()
		whole, full := p.merged(name, c)
		if whole.URL == nil {
			return false, &ChangeError{"a new endpoint needs a url"}
		}
		if full {
			return false, ErrTooManyEndpoints
		}
		if err := p.shared.publish(ctx, name, published{EndpointChange: whole}); err != nil {
			return false, err
		}
	}
	return p.apply(name, c)
}

// RemoveEndpoint takes an endpoint out of the pool, in all processes where its
// state is shared. An unknown name is no error. The endpoint's counts are kept
// for keep_count.
func (p *Pool) RemoveEndpoint(ctx context.Context, name string) error {
	if p.shared != nil && nameRE.MatchString(name) { // an endpoint with another name cannot exist
		p.shared.changing.Lock()
		defer p.shared.changing.Unlock()
		if err := p.shared.publish(ctx, name, published{Removed: true}); err != nil {
			return err
		}
	}
	p.Remove(name)
	return nil
}

func (p *Pool) checkChange(name string, c EndpointChange) error {
	switch {
	case !nameRE.MatchString(name):
		return &ChangeError{"an endpoint's name must be letters, digits, '.', '_' or '-', at most 63"}
	case c.Weight != nil && (*c.Weight < 0 || *c.Weight > math.MaxInt32):
		return &ChangeError{fmt.Sprintf("weight: %d: must be a whole number from 0 to 2147483647", *c.Weight)}
	case c.URL == nil:
		return nil
	}
	if _, err := ParseEndpointURL(*c.URL); err != nil {
		return &ChangeError{"url: " + err.Error()}
	}
	return nil
}

// merged is the endpoint as it will be after a change. full reports that the
// endpoint is new and that the pool has no room for it.
func (p *Pool) merged(name string, c EndpointChange) (whole EndpointChange, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	full = len(p.members) >= MaxEndpoints
	url, weight, eligible := (*string)(nil), 1, true
	if i := p.indexLocked(name); i >= 0 {
		m := p.members[i]
		url, weight, eligible, full = &m.endpoint.URL, int(m.weight), m.eligible, false
	}
	whole = EndpointChange{URL: url, Weight: &weight, Eligible: &eligible}
	if c.URL != nil {
		whole.URL = c.URL
	}
	if c.Weight != nil {
		whole.Weight = c.Weight
	}
	if c.Eligible != nil {
		whole.Eligible = c.Eligible
	}
	return whole, full
}

// edit collects changes of the members in this process. The set is rebuilt once
// after all of them.
type edit struct {
	now     time.Time
	resets  bool      // the list of members or their weights have changed
	watched []*member // to be probed
}

// apply makes a change in this process.
func (p *Pool) apply(name string, c EndpointChange) (created bool, err error) {
	e := edit{now: time.Now()}
	p.mu.Lock()
	created, err = p.applyLocked(&e, name, c)
	p.finishLocked(&e)
	return created, err
}

func (p *Pool) applyLocked(e *edit, name string, c EndpointChange) (created bool, err error) {
	i := p.indexLocked(name)
	var watched *member
	switch {
	case i < 0 && c.URL == nil:
		return false, &ChangeError{"a new endpoint needs a url"}
	case i < 0 && len(p.members) >= MaxEndpoints:
		return false, ErrTooManyEndpoints
	case i < 0:
		name = strings.Clone(name) // the name may be a part of the request's buffer
		watched = p.newMemberLocked(name, *c.URL, p.nextOrder, p.returnedLocked(name, e.now))
		p.nextOrder++
		p.members = append(p.members, watched)
		i, created = len(p.members)-1, true
	case c.URL != nil && *c.URL != p.members[i].endpoint.URL:
		old := p.members[i]
		old.removed = true
		watched = p.newMemberLocked(old.endpoint.Name, *c.URL, old.order, old.tally)
		watched.weight, watched.eligible = old.weight, old.eligible
		p.members[i] = watched
	}
	m := p.members[i]
	if watched != nil {
		e.resets = true
		if m.barred == "" {
			e.watched = append(e.watched, m)
		}
	}
	if c.Weight != nil && m.weight != int64(*c.Weight) {
		m.weight = int64(*c.Weight)
		e.resets = true
	}
	if c.Eligible != nil {
		p.setEligibleLocked(m, *c.Eligible, e.now)
	}
	return created, nil
}

// finishLocked rebuilds the set after an edit, and unlocks.
func (p *Pool) finishLocked(e *edit) {
	var n note
	if e.resets {
		n = p.changedLocked(e.now)
	} else {
		n = p.rebuildLocked(e.now)
	}
	p.mu.Unlock()
	n.log(p.log)
	for _, m := range e.watched {
		p.probes.watch(p, m)
	}
}

// newMemberLocked makes a member that is not yet admitted.
func (p *Pool) newMemberLocked(name, url string, order int, t *tally) *member {
	m := &member{endpoint: Endpoint{Name: name, URL: url}, order: order, weight: 1, eligible: true, tally: t}
	m.barred = p.barred(url)
	m.candidate = p.cfg.Health.Probe != ""
	if p.cfg.SlowStart > 0 && !m.candidate {
		m.ramp = time.Now()
	}
	return m
}

// returnedLocked is the tally of a removed endpoint of this name, or a new one.
// After keep_count only the score starts anew: requests in flight to the
// endpoint still count.
func (p *Pool) returnedLocked(name string, now time.Time) *tally {
	d, ok := p.departed[name]
	delete(p.departed, name)
	if !ok {
		return new(tally)
	}
	if now.Sub(d.at) >= p.cfg.KeepCount {
		d.score.Store(0)
	}
	return d.tally
}

// SetEligible sets whether the operator allows an endpoint in this process, and
// reports whether the pool has it. The policy keeps the state of an endpoint
// that is not eligible, so that the endpoint does not catch up when it returns.
func (p *Pool) SetEligible(name string, eligible bool) bool {
	now := time.Now()
	p.mu.Lock()
	i := p.indexLocked(name)
	if i >= 0 {
		p.setEligibleLocked(p.members[i], eligible, now)
	}
	n := p.rebuildLocked(now)
	p.mu.Unlock()
	n.log(p.log)
	return i >= 0
}

func (p *Pool) setEligibleLocked(m *member, eligible bool, now time.Time) {
	if eligible && !m.eligible && p.cfg.SlowStart > 0 {
		m.ramp = now
	}
	m.eligible = eligible
}

// Remove takes an endpoint out of the pool in this process, and reports whether
// it was there. Requests in flight to it go on.
func (p *Pool) Remove(name string) bool {
	e := edit{now: time.Now()}
	p.mu.Lock()
	removed := p.removeLocked(&e, name)
	p.finishLocked(&e)
	return removed
}

func (p *Pool) removeLocked(e *edit, name string) bool {
	i := p.indexLocked(name)
	if i < 0 {
		return false
	}
	m := p.members[i]
	m.removed = true
	p.members = slices.Delete(p.members, i, i+1)
	p.forgetDepartedLocked(e.now)
	p.departed[m.endpoint.Name] = departed{m.tally, e.now}
	e.resets = true
	return true
}

// forgetDepartedLocked makes room for another departed endpoint. It drops those
// whose time is over, and beyond maxDeparted the one that left first.
func (p *Pool) forgetDepartedLocked(now time.Time) {
	first := ""
	for name, d := range p.departed {
		if now.Sub(d.at) >= p.cfg.KeepCount && d.inFlight.Load() == 0 {
			delete(p.departed, name)
		} else if first == "" || d.at.Before(p.departed[first].at) {
			first = name
		}
	}
	if len(p.departed) >= maxDeparted {
		delete(p.departed, first)
	}
}

// changedLocked rebuilds the set after a change of the members or their
// weights.
func (p *Pool) changedLocked(now time.Time) note {
	p.generation++
	weights := make([]int64, len(p.members))
	names := make([]string, len(p.members))
	for i, m := range p.members {
		weights[i], names[i] = m.weight, m.endpoint.Name
	}
	p.steps = steps(weights)
	slices.Sort(names)
	p.ranks = make([]int, len(p.members))
	for i, m := range p.members {
		p.ranks[i], _ = slices.BinarySearch(names, m.endpoint.Name)
	}
	n := p.rebuildLocked(now)
	p.policy.reset(p.members, p.generation)
	return n
}

func (p *Pool) indexLocked(name string) int {
	return slices.IndexFunc(p.members, func(m *member) bool { return m.endpoint.Name == name })
}
