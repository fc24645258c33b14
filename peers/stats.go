package peers

import "time"

// Stats are counters since the start, and the state of each other member.
type Stats struct {
	// Abandoned belongs to the books: gets that got no counted answer, less the
	// counted answers that no get took (see account). It can be below zero.
	Abandoned int64 `json:"abandoned"`
	// Mismatches counts handshakes with a member whose list differs.
	Mismatches uint64 `json:"mismatches"`
	// Refused counts handshakes that either side refused.
	Refused uint64 `json:"refused"`
	// BrokenFrames counts links closed because of what they carried.
	BrokenFrames uint64 `json:"broken_frames"`
	// Doubts counts rounds in which this node's own loop was late. It takes nobody
	// for silent then.
	Doubts uint64 `json:"doubts"`
	// Incoming is the number of links that other nodes have open to this one.
	Incoming int `json:"incoming"`
	// Peers are the other members by id.
	Peers []PeerStats `json:"peers"`
}

// PeerStats is one other member, seen over the link to it.
type PeerStats struct {
	ID string `json:"id"`
	// Open says that its circuit is open: it is not called.
	Open bool `json:"open"`
	// Since is when the circuit last opened or closed.
	Since time.Time `json:"since"`
	// Reason is why the circuit is open, or "".
	Reason string `json:"reason"`
	// Connected says that there is a link to it.
	Connected bool `json:"connected"`
	// Outages counts how often its circuit opened.
	Outages uint64 `json:"outages"`
	// Calls counts calls to it, Failed those that it did not answer.
	Calls  uint64 `json:"calls"`
	Failed uint64 `json:"failed"`
	// InFlight is how many calls have no final answer yet.
	InFlight int `json:"in_flight"`
	// RTT is the 99th percentile of recent pings, in seconds.
	RTT float64 `json:"rtt"`
}

// Stats is a copy of the counters.
func (p *Peers) Stats() Stats {
	s := Stats{
		Abandoned:  p.abandoned.Load(),
		Mismatches: p.mismatches.Load(), Refused: p.refusals.Load(),
		BrokenFrames: p.brokenFrames.Load(), Doubts: p.doubts.Load(),
		Incoming: len(p.links()), Peers: make([]PeerStats, 0, len(p.ordered)),
	}
	for _, pe := range p.ordered {
		s.Abandoned -= pe.account.lost()
		s.Peers = append(s.Peers, pe.stats())
	}
	return s
}

func (pe *peer) stats() PeerStats {
	s := PeerStats{ID: pe.id, Calls: pe.calls.Load(), Failed: pe.failed.Load()}
	pe.p.mu.Lock()
	c := pe.circuit
	pe.p.mu.Unlock()
	s.Open, s.Since, s.Reason, s.Outages = c.isOpen, c.since, c.reason, c.outages
	if l := pe.link.Load(); l != nil {
		s.Connected = true
		s.RTT = l.RTT.Percentile99().Seconds()
		s.InFlight = l.InFlight()
	}
	return s
}

// Abandon counts a get of this node's that has got no counted answer. A counted answer
// that still comes takes it back.
func (p *Peers) Abandon() { p.abandoned.Add(1) }
