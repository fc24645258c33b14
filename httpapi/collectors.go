package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"kring/peers"
)

// bookCollector shows the cache's books as metrics. Groups are few and named
// in the configuration, so they may be labels.
type bookCollector struct {
	a *API

	gets, answers, negative, refreshes, revalidated, groupBytes, groupEntries family
	served, standIn, abandoned                                                family
	bytes, maxBytes, entries, evictions                                       family
}

func newBookCollector(a *API) *bookCollector {
	return &bookCollector{
		a:            a,
		gets:         counter("kring_gets_total", "Gets of clients.", "group"),
		answers:      counter("kring_answers_total", "Gets of clients, by where they were answered.", "group", "answer"),
		negative:     counter("kring_negative_hits_total", "Hits that said that there is no such key.", "group"),
		refreshes:    counter("kring_refreshes_total", "Requests to origins that no get waited for.", "group"),
		revalidated:  counter("kring_revalidated_total", "Loads that the origin answered with a 304.", "group"),
		groupBytes:   gauge("kring_group_bytes", "Bytes of a group's entries.", "group"),
		groupEntries: gauge("kring_group_entries", "Entries of a group.", "group"),
		served:       counter("kring_served_total", "Gets of other nodes, by where they were answered.", "answer"),
		standIn:      counter("kring_stand_in_total", "Gets answered here for an owner that is not heard."),
		abandoned:    gauge("kring_abandoned", "Gets given up on at another node, less those it counted all the same."),
		bytes:        gauge("kring_store_bytes", "Bytes of all entries."),
		maxBytes:     gauge("kring_store_max_bytes", "The budget of all entries, in bytes."),
		entries:      gauge("kring_store_entries", "Entries held."),
		evictions:    counter("kring_evictions_total", "Entries dropped for want of room."),
	}
}

func (c *bookCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c *bookCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.a.cluster.Stats()
	for i := range s.Groups {
		g := &s.Groups[i]
		c.gets.send(ch, float64(g.Gets), g.Name)
		c.negative.send(ch, float64(g.Negative), g.Name)
		c.refreshes.send(ch, float64(g.Refreshes), g.Name)
		c.revalidated.send(ch, float64(g.Revalidated), g.Name)
		c.groupBytes.send(ch, float64(g.Bytes), g.Name)
		c.groupEntries.send(ch, float64(g.Entries), g.Name)
		for _, column := range []struct {
			name  string
			value uint64
		}{
			{"hit", g.Hits},
			{"hot", g.HotHits},
			{"stale", g.Stale},
			{"joined", g.Joined},
			{"peer", g.Peer},
			{"load", g.Loads},
			{"refused", g.Refused},
		} {
			c.answers.send(ch, float64(column.value), g.Name, column.name)
		}
	}
	c.served.send(ch, float64(s.ServedHits), "hit")
	c.served.send(ch, float64(s.ServedStale), "stale")
	c.served.send(ch, float64(s.ServedJoined), "joined")
	c.served.send(ch, float64(s.ServedLoads), "load")
	c.served.send(ch, float64(s.ServedRefused), "refused")
	c.standIn.send(ch, float64(s.StandIn))
	c.abandoned.send(ch, float64(s.Abandoned))
	c.bytes.send(ch, float64(s.Bytes))
	c.maxBytes.send(ch, float64(s.MaxBytes))
	c.entries.send(ch, float64(s.Entries))
	c.evictions.send(ch, float64(s.Evictions))
}

// peerCollector shows the members and the links to them.
type peerCollector struct {
	a *API

	up, share, connected, outages, calls, failed, inFlight, rtt family
	notOwner, passedOn, mismatches, refused, broken, doubts     family
	incoming                                                    family
}

func newPeerCollector(a *API) *peerCollector {
	return &peerCollector{
		a:          a,
		up:         gauge("kring_member_active", "1 if the member can be called from here.", "member"),
		share:      gauge("kring_member_share_ratio", "The member's part of the ring, from 0 to 1.", "member"),
		connected:  gauge("kring_peer_connected", "1 if there is a link to the peer.", "peer"),
		outages:    counter("kring_peer_outages_total", "Times that the peer's circuit opened.", "peer"),
		calls:      counter("kring_peer_calls_total", "Calls made to the peer.", "peer"),
		failed:     counter("kring_peer_failed_calls_total", "Calls that the peer did not answer.", "peer"),
		inFlight:   gauge("kring_peer_calls_in_flight", "Calls that the peer has yet to answer.", "peer"),
		rtt:        gauge("kring_peer_round_trip_seconds", "99th percentile of recent pings of the peer.", "peer"),
		notOwner:   counter("kring_peer_not_owner_total", "Answers of peers that they do not act for the key."),
		passedOn:   counter("kring_peer_passed_on_total", "Calls of peers passed on to another one."),
		mismatches: counter("kring_peer_mismatches_total", "Handshakes with peers whose list of members differs."),
		refused:    counter("kring_peer_refused_handshakes_total", "Handshakes refused by either side."),
		broken:     counter("kring_peer_broken_frames_total", "Links closed because of what they carried."),
		doubts:     counter("kring_peer_doubts_total", "Times that this node was late itself and blamed nobody."),
		incoming:   gauge("kring_peer_incoming_links", "Links that peers have open to this node."),
	}
}

func (c *peerCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c *peerCollector) Collect(ch chan<- prometheus.Metric) {
	v, s := c.a.peers.View(), c.a.peers.Stats()
	members := c.a.peers.Members()
	for i := range members {
		m := &members[i]
		c.up.send(ch, truth(m.State == peers.StateActive), m.ID)
		c.share.send(ch, v.Share(m.ID), m.ID)
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		c.connected.send(ch, truth(p.Connected), p.ID)
		c.outages.send(ch, float64(p.Outages), p.ID)
		c.calls.send(ch, float64(p.Calls), p.ID)
		c.failed.send(ch, float64(p.Failed), p.ID)
		c.inFlight.send(ch, float64(p.InFlight), p.ID)
		c.rtt.send(ch, p.RTT, p.ID)
	}
	books := c.a.cluster.Stats()
	c.notOwner.send(ch, float64(books.NotOwner))
	c.passedOn.send(ch, float64(books.PassedOn))
	c.mismatches.send(ch, float64(s.Mismatches))
	c.refused.send(ch, float64(s.Refused))
	c.broken.send(ch, float64(s.BrokenFrames))
	c.doubts.send(ch, float64(s.Doubts))
	c.incoming.send(ch, float64(s.Incoming))
}

// poolCollector shows the pools and their endpoints.
type poolCollector struct {
	a *API

	degraded, outages, local, panicking, panics   family
	weight, eligible, healthy, assigned, inFlight family
}

func newPoolCollector(a *API) *poolCollector {
	return &poolCollector{
		a:         a,
		degraded:  gauge("kring_pool_degraded", "1 while the pool's shared state cannot be reached.", "pool"),
		outages:   counter("kring_pool_outages_total", "Times that the pool's shared state was lost.", "pool"),
		local:     counter("kring_pool_local_picks_total", "Picks made in this process for want of the shared state.", "pool"),
		panicking: gauge("kring_pool_panic", "1 while health is ignored because too few endpoints are healthy.", "pool"),
		panics:    counter("kring_pool_panic_picks_total", "Picks made while health was ignored.", "pool"),
		weight:    gauge("kring_endpoint_weight", "The endpoint's configured weight.", "pool", "endpoint"),
		eligible:  gauge("kring_endpoint_eligible", "1 if the endpoint may be picked.", "pool", "endpoint"),
		healthy:   gauge("kring_endpoint_healthy", "1 if the endpoint is not ejected.", "pool", "endpoint"),
		assigned:  counter("kring_endpoint_assigned_total", "Requests that this node assigned to the endpoint.", "pool", "endpoint"),
		inFlight:  gauge("kring_endpoint_in_flight", "Of those, requests that the endpoint has yet to finish.", "pool", "endpoint"),
	}
}

func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	for _, name := range c.a.order {
		s := c.a.pools[name].Status()
		c.degraded.send(ch, truth(s.Degraded), name)
		c.outages.send(ch, float64(s.Outages), name)
		c.local.send(ch, float64(s.LocalPicks), name)
		c.panicking.send(ch, truth(s.Panic), name)
		c.panics.send(ch, float64(s.Panics), name)
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			c.weight.send(ch, float64(e.Weight), name, e.Name)
			c.eligible.send(ch, truth(e.Eligible), name, e.Name)
			c.healthy.send(ch, truth(e.Healthy), name, e.Name)
			c.assigned.send(ch, float64(e.Picks), name, e.Name)
			c.inFlight.send(ch, float64(e.Unfinished), name, e.Name)
		}
	}
}
