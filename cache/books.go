package cache

import "sync/atomic"

// bookStripes keeps nodes with many cores from counting on one cache line.
const bookStripes = 8

// books count what became of the gets of one group.
type books [bookStripes]page

type page struct {
	gets      atomic.Uint64
	kinds     [KindRefused + 1]atomic.Uint64
	negative  atomic.Uint64
	refreshes atomic.Uint64
	standIn   atomic.Uint64

	revalidated atomic.Uint64

	_ [24]byte // to 128 bytes, two cache lines
}

func (b *books) page(h uint64) *page { return &b[(h>>20)%bookStripes] }

// answered enters how a get was answered. Its arrival is counted apart, when
// it arrives, so that the two prove each other.
func (p *page) answered(a Answer) {
	p.kinds[a.Kind].Add(1)
	if a.Kind == KindHit && a.Entry.Negative {
		p.negative.Add(1)
	}
}

func (b *books) reads() (r Reads, standIn uint64) {
	for i := range b {
		p := &b[i]
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

// served counts the gets of other nodes.
type served struct {
	kinds     [KindRefused + 1]atomic.Uint64
	refreshes atomic.Uint64 // loads whose answers did not reach the asker
}

// Settle enters a get that Serve answered, once its answer has been written to
// the asker, or could not be: then the asker counts it as abandoned, and a
// load made for it was a refresh. KindNone counts nothing.
func (c *Cache) Settle(kind Kind, delivered bool) {
	switch {
	case kind == KindNone || kind > KindRefused:
	case delivered:
		c.served.kinds[kind].Add(1)
	case kind == KindLoad:
		c.served.refreshes.Add(1)
	}
}

// Stats returns the books and what the store holds.
func (c *Cache) Stats() Stats {
	s := Stats{Node: c.node, MaxBytes: c.config.MaxBytes}
	used := make(map[string]usage)
	total := c.store.usage(used)
	s.Bytes, s.Entries, s.Evictions = total.bytes, total.entries, total.evictions
	s.NegativeBytes, s.NegativeMaxBytes = c.store.absent.usage().bytes, c.store.absent.budget
	s.Groups = make([]GroupStats, 0, len(c.order))
	for _, g := range c.order {
		r, standIn := g.books.reads()
		s.Reads.add(r)
		s.StandIn += standIn
		s.Groups = append(s.Groups, GroupStats{Name: g.Name, Reads: r, Bytes: used[g.Name].bytes, Entries: used[g.Name].entries})
	}
	k := &c.served.kinds
	s.ServedHits = k[KindHit].Load()
	s.ServedStale = k[KindStale].Load()
	s.ServedJoined = k[KindJoined].Load()
	s.ServedLoads = k[KindLoad].Load()
	s.ServedRefused = k[KindRefused].Load()
	s.Served = s.ServedHits + s.ServedStale + s.ServedJoined + s.ServedLoads + s.ServedRefused
	s.Refreshes += c.served.refreshes.Load()
	return s
}
