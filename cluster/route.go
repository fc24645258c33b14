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

	c *Cluster
}

// Holds reports whether the view of the decision is still this node's view. An
// answer leaves the node only while it is.
func (r Route) Holds() bool { return r.c.peers.View() == r.View }

// routing is what routes are decided from: a view, and how this node sees its members.
type routing struct {
	c         *Cluster
	view      *membership.View
	standings *peers.Standings
}

func (c *Cluster) routing() routing {
	return routing{c: c, view: c.peers.View(), standings: c.peers.Standings()}
}

// route decides who acts for a key now. The excluded members have not answered this
// request.
func (c *Cluster) route(key string, excluded []string) Route {
	r := c.routing()
	return r.route(key, excluded)
}

// route is the one place that says who acts for a key: its owner or, while that
// one's circuit is open (or this request has excluded it), the next owner on the
// ring whose circuit is closed. This node's own circuit is never open, so there
// always is one.
//
// A stand-in's term is the newest of the outages that put it in charge. It stays the
// same exactly as long as none of the members before it comes back, and each later
// term of the key is larger: a node numbers the outages that it sees in one row.
func (r *routing) route(key string, excluded []string) Route {
	owner := r.view.Ring.Get(key)
	if owner == r.c.self || r.standings.Down == 0 && len(excluded) == 0 {
		return r.to(owner, 0)
	}
	if r.standings.CanCall(owner) && !slices.Contains(excluded, owner) {
		return r.to(owner, 0)
	}
	outage := uint64(0)
	for _, id := range r.view.Ring.Owners(key, len(r.view.Members)) {
		m := r.standings.Of(id)
		if id == r.c.self || m.State == peers.StateActive && !slices.Contains(excluded, id) {
			return r.to(id, outage)
		}
		outage = max(outage, m.Outage)
	}
	return r.to(r.c.self, outage)
}

func (r *routing) to(id string, outage uint64) Route {
	return Route{View: r.view, Node: id, Self: id == r.c.self, Term: cache.Term(outage), c: r.c}
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
