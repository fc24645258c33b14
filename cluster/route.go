package cluster

import (
	"slices"

	"kring/cache"
	"kring/membership"
	"kring/peers"
)

// Route is who acts for a key: one decision, in one view, for one request.
type Route struct {
	// View is the view that the decision was made in.
	View *membership.View
	// Node is the id of the member that acts. Self reports whether it is this node.
	Node string
	Self bool
	// Term is the term in which the member acts, as this node sees it.
	Term cache.Term

	peers Peers
}

// Holds reports whether the view of the decision is still this node's view. An
// answer leaves the node only while it is.
func (r Route) Holds() bool { return r.peers.View() == r.View }

// route is the one place that says who acts for a key: its owner or, while that
// one's circuit is open (or this request has excluded it), the next owner on the
// ring whose circuit is closed. This node's own circuit is never open, so there
// always is one.
//
// A stand-in's term is the newest of the outages that put it in charge. It stays the
// same exactly as long as none of the members before it comes back, and each later
// term of the key is larger: a node numbers the outages that it sees in one row.
func (c *Cluster) route(key string, excluded []string) Route {
	view, standings := c.peers.View(), c.peers.Standings()
	to := func(id string, outage uint64) Route {
		return Route{View: view, Node: id, Self: id == c.self, Term: cache.Term(outage), peers: c.peers}
	}
	owner := view.Ring.Get(key)
	if owner == c.self || standings.Down == 0 && len(excluded) == 0 {
		return to(owner, 0)
	}
	if standings.CanCall(owner) && !slices.Contains(excluded, owner) {
		return to(owner, 0)
	}
	outage := uint64(0)
	for _, id := range view.Ring.Owners(key, len(view.Members)) {
		m := standings.Of(id)
		if id == c.self || m.State == peers.StateActive && !slices.Contains(excluded, id) {
			return to(id, outage)
		}
		outage = max(outage, m.Outage)
	}
	return to(c.self, outage)
}

// routeHere is the route of a request for which no other node has acted. If this
// node's own view says that another one acts, nobody has confirmed this node: the
// term is Unowned.
func (c *Cluster) routeHere(key string) Route {
	r := c.route(key, nil)
	if !r.Self {
		r.Node, r.Self, r.Term = c.self, true, cache.Unowned
	}
	return r
}
