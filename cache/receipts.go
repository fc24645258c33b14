package cache

import "sync"

// rememberedWrites is how many applied writes a node remembers.
const rememberedWrites = 4096

// receipts are the writes that this node has applied lately. Another node that
// heard no answer asks again with the same id: the write is not applied twice,
// and a condition that its first try met, and thereby changed, stays met.
type receipts struct {
	mu      sync.Mutex // guards all below
	created map[receipt]bool
	ring    []receipt // the oldest at next, once it is full
	next    int
}

type receipt struct {
	id  uint64
	key Key
}

func newReceipts() receipts { return receipts{created: make(map[receipt]bool)} }

func (rs *receipts) find(r receipt) (created, done bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	created, done = rs.created[r]
	return created, done
}

func (rs *receipts) add(r receipt, created bool) {
	r.key = owned(r.key)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.ring) < rememberedWrites {
		rs.ring = append(rs.ring, r)
	} else {
		delete(rs.created, rs.ring[rs.next])
		rs.ring[rs.next] = r
		rs.next = (rs.next + 1) % rememberedWrites
	}
	rs.created[r] = created
}
