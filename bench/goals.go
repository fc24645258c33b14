//go:build linux

package main

// Reasons why a goal may be missed, from profiles: see
// docs/decisions/0012-bench.md.
const (
	boundHit   = "Ten headers where bare Gin's answer has three: net/http copies, sorts and writes them; besides, connections have deadlines, and books and metrics are kept."
	boundPeer  = "The client's own HTTP exchange with the entry node, which both variants make and which is most of what is left."
	boundBatch = "What each key costs by itself: its place in the LRU, its fields in a frame and in the answer at either end, and an entry that is made at the entry node only to be passed on."
)

// goals are Kring's goals relative to its peers: on all cores, and with servers
// and loader on one core, where CPU figures are steady.
func goals() []Goal {
	var all []Goal
	for _, g := range []Goal{
		{Work: workHit, Metric: "cpu_us", Peer: bareGin, Want: 1.15, Bound: boundHit},
		{Work: workPeer, Metric: "rps", Peer: http1Peers, Want: 1.8, Bound: boundPeer},
		{Work: workBatch, Metric: "rps", Peer: kringSingle, Want: 15, Bound: boundBatch},
	} {
		pinned := g
		pinned.Work += oneCore
		all = append(all, g, pinned)
	}
	return all
}
