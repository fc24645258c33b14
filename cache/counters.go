package cache

import "sync/atomic"

// counterShards are several, so that many cores do not write to one cache line.
const counterShards = 8

// counters count how the gets of one group were answered.
type counters [counterShards]counterShard

type counterShard struct {
	gets      atomic.Uint64
	kinds     [KindRefused + 1]atomic.Uint64
	negative  atomic.Uint64
	refreshes atomic.Uint64
	standIn   atomic.Uint64

	revalidated atomic.Uint64

	_ [24]byte // to 128 bytes, two cache lines
}

func (c *counters) shard(h uint64) *counterShard { return &c[(h>>20)%counterShards] }

// answered counts how a get was answered. The get's arrival was counted before. The two
// counts check each other.
func (s *counterShard) answered(a Answer) {
	s.kinds[a.Kind].Add(1)
	if a.Kind == KindHit && a.Entry.Negative {
		s.negative.Add(1)
	}
}

func (c *counters) reads() (r Reads, standIn uint64) {
	for i := range c {
		p := &c[i]
		r.Gets += p.gets.Load()
		r.Hits += p.kinds[KindHit].Load()
		r.Stale += p.kinds[KindStale].Load()
		r.Joined += p.kinds[KindJoined].Load()
		r.Peer += p.kinds[KindPeer].Load()
		r.Loads += p.kinds[KindLoad].Load()
		r.Refused += p.kinds[KindRefused].Load()
		r.Negative += p.negative.Load()
		r.Refreshes += p.refreshes.Load()
		r.Revalidated += p.revalidated.Load()
		standIn += p.standIn.Load()
	}
	return r, standIn
}

func (r *Reads) add(o Reads) {
	r.Gets += o.Gets
	r.Hits += o.Hits
	r.Stale += o.Stale
	r.Joined += o.Joined
	r.Peer += o.Peer
	r.Loads += o.Loads
	r.Refused += o.Refused
	r.Negative += o.Negative
	r.Refreshes += o.Refreshes
	r.Revalidated += o.Revalidated
}

// servedCounts count the gets of other nodes.
type servedCounts struct {
	kinds     [KindRefused + 1]atomic.Uint64
	refreshes atomic.Uint64 // loads whose answers did not reach the node that asked
}
