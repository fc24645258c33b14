package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"

	"kring/peers"
)

// collector shows as metrics what the node's parts count by themselves. Labels
// are groups, members, pools and endpoints: these are few, and a client cannot
// make up new ones.
type collector struct {
	a            *API
	version      string
	linesDropped func() uint64
}

// Describe names no metric, because a pool may have no endpoint yet. The registry
// checks them when they are read.
func (*collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge(ch, "kring_build_info", "1, labelled with the version.", 1, "version", c.version)
	counter(ch, "kring_log_lines_dropped_total", "Lines of the log that were lost because they were not read or could not be written.", c.linesDropped())
	c.collectHTTP(ch)
	c.collectBooks(ch)
	c.collectPeers(ch)
	c.collectPools(ch)
}

func (c *collector) collectHTTP(ch chan<- prometheus.Metric) {
	gauge(ch, "kring_http_requests_in_flight", "Requests being answered that count against limits.requests_in_flight.", c.a.inFlight.Load())
	conns := c.a.server.Stats()
	gauge(ch, "kring_http_connections", "Open connections of clients.", conns.Open)
	counter(ch, "kring_http_connections_refused_total", "Connections closed unserved at a limit.", conns.Refused)
	counter(ch, "kring_http_connections_displaced_total", "Idle connections closed at a limit for new ones.", conns.Displaced)
	values, lists := c.a.values.Stats(), c.a.lists.Stats()
	gauge(ch, "kring_http_body_bytes", "Memory set aside for request bodies being read.", values.InUse+lists.InUse)
	counter(ch, "kring_http_bodies_refused_total", "Requests refused because there was no room for their bodies.", values.Refused+lists.Refused)
	counter(ch, "kring_http_bodies_turned_away_total", "Requests ended for others because their clients sent no more of the body.", values.TurnedAway+lists.TurnedAway)
	answers, reports := c.a.responses.Stats(), c.a.reports.Stats()
	gauge(ch, "kring_response_bytes", "Memory of values and answers on their way to readers.", answers.InUse)
	gauge(ch, "kring_response_max_bytes", "The budget of values and answers on their way to readers, in bytes.", answers.Max)
	counter(ch, "kring_response_refused_total", "Requests refused because too much was on its way to readers.", answers.Refused+reports.Refused)
	counter(ch, "kring_response_connections_closed_total", "Connections closed for others because their clients took nothing of the answer.", answers.TurnedAway+reports.TurnedAway)
}

func (c *collector) collectBooks(ch chan<- prometheus.Metric) {
	s := c.a.cluster.Stats()
	for i := range s.Groups {
		g := &s.Groups[i]
		counter(ch, "kring_gets_total", "Gets of clients.", g.Gets, "group", g.Name)
		answered := func(answer string, n uint64) {
			counter(ch, "kring_answers_total", "Gets of clients, by where they were answered.", n, "group", g.Name, "answer", answer)
		}
		answered("hit", g.Hits)
		answered("hot", g.HotHits)
		answered("stale", g.Stale)
		answered("joined", g.Joined)
		answered("peer", g.Peer)
		answered("load", g.Loads)
		answered("refused", g.Refused)
		counter(ch, "kring_negative_hits_total", "Hits whose answer was that there is no such key.", g.Negative, "group", g.Name)
		counter(ch, "kring_refreshes_total", "Requests to origins that no get waited for.", g.Refreshes, "group", g.Name)
		counter(ch, "kring_revalidated_total", "Loads that the origin answered with a 304.", g.Revalidated, "group", g.Name)
		gauge(ch, "kring_group_bytes", "Bytes of a group's entries.", g.Bytes, "group", g.Name)
		gauge(ch, "kring_group_entries", "Entries of a group.", g.Entries, "group", g.Name)
	}
	served := func(answer string, n uint64) {
		counter(ch, "kring_served_total", "Gets of other nodes, by where they were answered.", n, "answer", answer)
	}
	served("hit", s.ServedHits)
	served("stale", s.ServedStale)
	served("joined", s.ServedJoined)
	served("load", s.ServedLoads)
	served("refused", s.ServedRefused)
	counter(ch, "kring_peer_not_owner_total", "Answers of peers that they do not act for the key.", s.NotOwner)
	counter(ch, "kring_peer_passed_on_total", "Calls of peers passed on to another one.", s.PassedOn)
	counter(ch, "kring_stand_in_total", "Gets answered here in place of an owner that does not answer.", s.StandIn)
	gauge(ch, "kring_abandoned", "Gets abandoned at another node, less those that it counted all the same.", s.Abandoned)
	gauge(ch, "kring_store_bytes", "Bytes of all entries.", s.Bytes)
	gauge(ch, "kring_store_max_bytes", "The budget of all entries, in bytes.", s.MaxBytes)
	gauge(ch, "kring_store_entries", "Entries in the store.", s.Entries)
	counter(ch, "kring_evictions_total", "Entries evicted to make room.", s.Evictions)
}

func (c *collector) collectPeers(ch chan<- prometheus.Metric) {
	v, s := c.a.peers.View(), c.a.peers.Stats()
	members := c.a.peers.Members()
	for i := range members {
		m := &members[i]
		gauge(ch, "kring_member_active", "1 if the member can be called from here.", truth(m.State == peers.StateActive), "member", m.ID)
		gauge(ch, "kring_member_share_ratio", "The member's part of the ring, from 0 to 1.", v.Share(m.ID), "member", m.ID)
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		gauge(ch, "kring_peer_connected", "1 if there is a link to the peer.", truth(p.Connected), "peer", p.ID)
		counter(ch, "kring_peer_outages_total", "Times that the peer's circuit opened.", p.Outages, "peer", p.ID)
		counter(ch, "kring_peer_calls_total", "Calls made to the peer.", p.Calls, "peer", p.ID)
		counter(ch, "kring_peer_failed_calls_total", "Calls that the peer did not answer.", p.Failed, "peer", p.ID)
		gauge(ch, "kring_peer_calls_in_flight", "Calls that the peer has yet to answer.", p.InFlight, "peer", p.ID)
		gauge(ch, "kring_peer_round_trip_seconds", "99th percentile of recent pings of the peer.", p.RTT, "peer", p.ID)
	}
	counter(ch, "kring_peer_mismatches_total", "Handshakes with peers whose list of members differs.", s.Mismatches)
	counter(ch, "kring_peer_refused_handshakes_total", "Handshakes refused by either side.", s.Refused)
	counter(ch, "kring_peer_broken_frames_total", "Links closed because of what they carried.", s.BrokenFrames)
	counter(ch, "kring_peer_doubts_total", "Times that this node's own clock was late, so that it blamed no peer.", s.Doubts)
	gauge(ch, "kring_peer_incoming_links", "Links that peers have open to this node.", s.Incoming)
}

func (c *collector) collectPools(ch chan<- prometheus.Metric) {
	for _, name := range c.a.order {
		s := c.a.pools[name].Status()
		gauge(ch, "kring_pool_degraded", "1 while the pool's shared state cannot be reached.", truth(s.Degraded), "pool", name)
		counter(ch, "kring_pool_outages_total", "Times that the pool's shared state was lost.", s.Outages, "pool", name)
		counter(ch, "kring_pool_local_picks_total", "Picks made in this process while the shared state could not be reached.", s.LocalPicks, "pool", name)
		gauge(ch, "kring_pool_panic", "1 while health is ignored because too few endpoints are healthy.", truth(s.Panic), "pool", name)
		counter(ch, "kring_pool_panic_picks_total", "Picks made while health was ignored.", s.Panics, "pool", name)
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			gauge(ch, "kring_endpoint_weight", "The endpoint's configured weight.", e.Weight, "pool", name, "endpoint", e.Name)
			gauge(ch, "kring_endpoint_eligible", "1 if the endpoint may be picked.", truth(e.Eligible), "pool", name, "endpoint", e.Name)
			gauge(ch, "kring_endpoint_healthy", "1 if the endpoint is not ejected.", truth(e.Healthy), "pool", name, "endpoint", e.Name)
			counter(ch, "kring_endpoint_assigned_total", "Requests that this node assigned to the endpoint.", e.Picks, "pool", name, "endpoint", e.Name)
			gauge(ch, "kring_endpoint_in_flight", "Requests that this node assigned and the endpoint has yet to finish.", e.Unfinished, "pool", name, "endpoint", e.Name)
		}
	}
}

type number interface{ int | int64 | uint64 | float64 }

func counter[N number](ch chan<- prometheus.Metric, name, help string, value N, labels ...string) {
	ch <- constant(prometheus.CounterValue, name, help, float64(value), labels)
}

func gauge[N number](ch chan<- prometheus.Metric, name, help string, value N, labels ...string) {
	ch <- constant(prometheus.GaugeValue, name, help, float64(value), labels)
}

// constant makes a metric of one value. Labels are names, each before its value.
func constant(kind prometheus.ValueType, name, help string, value float64, labels []string) prometheus.Metric {
	pairs := make(prometheus.Labels, len(labels)/2)
	for i := 0; i < len(labels); i += 2 {
		pairs[labels[i]] = labels[i+1]
	}
	return prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, pairs), kind, value)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
