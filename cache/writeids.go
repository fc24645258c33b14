package cache

import "sync"

// rememberedWrites is how many committed writes a node remembers.
const rememberedWrites = 4096

// writeIDs are the writes that this node has committed lately. A caller that got no
// answer asks again with the same id. The write is not applied twice then, and its
// condition need not hold again: the first try has changed the value.
type writeIDs struct {
	mu      sync.Mutex // guards all below
	created map[writeID]bool
	ring    []writeID // the oldest at next, once it is full
	next    int
}

type writeID struct {
	id  uint64
	key Key
}

func newWriteIDs() writeIDs { return writeIDs{created: make(map[writeID]bool)} }

func (w *writeIDs) find(id writeID) (created, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	created, done = w.created[id]
	return created, done
}

func (w *writeIDs) add(id writeID, created bool) {
	id.key = owned(id.key)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ring) < rememberedWrites {
		w.ring = append(w.ring, id)
	} else {
		delete(w.created, w.ring[w.next])
		w.ring[w.next] = id
		w.next = (w.next + 1) % rememberedWrites
	}
	w.created[id] = created
}
