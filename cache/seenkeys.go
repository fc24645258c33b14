package cache

import "sync"

const (
	seenBits          = 1 << 20       // of one generation: 128 KiB
	seenPerGeneration = seenBits / 16 // after which the next begins
	seenProbes        = 6             // the best number for 16 bits a key: 1 in 1000 is wrong
)

// seenKeys remembers the keys of a group that were PUT, or that the origin has answered
// for. All others are new. It is a Bloom filter in two generations. The older one goes
// when the newer one is full, so at least the last 65,536 keys are known. It takes about
// one new key in 500 for a known one, and no known key for a new one. The zero value is
// ready. A group whose new keys are not limited has a nil one, which takes no memory.
type seenKeys struct {
	mu           sync.Mutex // guards all below
	newer, older *[seenBits / 64]uint64
	keys         int // in newer
}

// add notes a key by its hash.
func (m *seenKeys) add(h uint64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newer == nil || m.keys >= seenPerGeneration {
		m.newer, m.older, m.keys = new([seenBits / 64]uint64), m.newer, 0
	}
	added := false
	for i := range uint64(seenProbes) {
		word, bit := probe(h, i)
		added = added || m.newer[word]&bit == 0
		m.newer[word] |= bit
	}
	if added {
		m.keys++
	}
}

// has reports whether the key of a hash was added.
func (m *seenKeys) has(h uint64) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, generation := range [...]*[seenBits / 64]uint64{m.newer, m.older} {
		if generation == nil {
			continue
		}
		all := true
		for i := range uint64(seenProbes) {
			word, bit := probe(h, i)
			all = all && generation[word]&bit != 0
		}
		if all {
			return true
		}
	}
	return false
}

// probe is the place of a hash's i-th bit. Two halves of one good hash make as many
// places as are needed (Kirsch and Mitzenmacher, 2006).
func probe(h, i uint64) (word int, bit uint64) {
	at := (h&0xffffffff + i*(h>>32|1)) % seenBits
	return int(at / 64), 1 << (at % 64)
}
