package peers

import "slices"

// acting is the one place that says who acts for a key: its owner or, while
// that one's circuit is open (or this request has excluded it), the next owner
// on the ring whose circuit is closed. This node's own circuit is never open,
// so there always is one.
//
// The term is 0 when that is the owner. Otherwise it is the newest of the
// outages that put the acting member in charge: it stays the same exactly as
// long as none of the members before it comes back.
func (v *View) acting(key string, excluded []string) (id string, term uint64) {
	owner := v.Ring.Get(key)
	if owner == v.self || (v.down == 0 && len(excluded) == 0) {
		return owner, 0
	}
	if m := v.member(owner); m.State == StateActive && !slices.Contains(excluded, owner) {
		return owner, 0
	}
	for _, id := range v.Ring.Owners(key, len(v.Members)) {
		m := v.member(id)
		if id == v.self || (m.State == StateActive && !slices.Contains(excluded, id)) {
			return id, term
		}
		term = max(term, m.outage)
	}
	return v.self, term
}

// Acts says whether this node acts for a key now, and under which term: see
// cache.Router.
func (p *Peers) Acts(key string) (term uint64, self bool) {
	v := p.view.Load()
	id, term := v.acting(key, nil)
	return term, id == v.self
}
