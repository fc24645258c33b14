package peers

import (
	"slices"

	"kring/membership"
)

// acting is the one place that says who acts for a key: its owner or, while
// that one's circuit is open (or this request has excluded it), the next owner
// on the ring whose circuit is closed. This node's own circuit is never open,
// so there always is one.
//
// The term is 0 when that is the owner. Otherwise it is the newest of the
// outages that put the acting member in charge: it stays the same exactly as
// long as none of the members before it comes back.
func (p *Peers) acting(v *membership.View, key string, excluded []string) (id string, term uint64) {
	owner := v.Ring.Get(key)
	s := p.standings.Load()
	if owner == p.self || (s.down == 0 && len(excluded) == 0) {
		return owner, 0
	}
	if s.canCall(owner) && !slices.Contains(excluded, owner) {
		return owner, 0
	}
	for _, id := range v.Ring.Owners(key, len(v.Members)) {
		m := s.of(id)
		if id == p.self || (m.State == StateActive && !slices.Contains(excluded, id)) {
			return id, term
		}
		term = max(term, m.outage)
	}
	return p.self, term
}

// Acts says whether this node acts for a key now, and under which term: see
// cache.Router.
func (p *Peers) Acts(key string) (term uint64, self bool) {
	id, term := p.acting(p.view.Load(), key, nil)
	return term, id == p.self
}
