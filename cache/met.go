package cache

import "sync"

const (
	metBits   = 1 << 20      // of one generation: 128 KiB
	metKeys   = metBits / 16 // after which the next begins
	metProbes = 6            // the best number for 16 bits a key: 1 in 1000 is wrong
)

// met remembers which keys of a group its origin has answered for, or were
// PUT: all others are new. It is a Bloom filter in two generations, of which
// the older goes when the newer is full, so that the last 65,536 keys at least
// are known. One new key in some 500 is taken for a known one, none the other
// way round. The zero value is ready; a nil one, of a group whose new keys are
// not limited, takes no memory.
type met struct {
	mu           sync.Mutex // guards all below
	newer, older *[metBits / 64]uint64
	keys         int // in newer
}

// add notes a key by its hash.
func (m *met) add(h uint64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newer == nil || m.keys >= metKeys {
		m.newer, m.older, m.keys = new([metBits / 64]uint64), m.newer, 0
	}
	added := false
	for i := range uint64(metProbes) {
		word, bit := probe(h, i)
		added = added || m.newer[word]&bit == 0
		m.newer[word] |= bit
	}
	if added {
		m.keys++
	}
}

// has reports whether the key of a hash was added.
func (m *met) has(h uint64) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, generation := range [...]*[metBits / 64]uint64{m.newer, m.older} {
		if generation == nil {
			continue
		}
		all := true
		for i := range uint64(metProbes) {
			word, bit := probe(h, i)
			all = all && generation[word]&bit != 0
		}
		if all {
			return true
		}
	}
	return false
}

// probe is the place of a hash's i-th bit: two halves of one good hash make as
// many as are needed (Kirsch and Mitzenmacher, 2006).
func probe(h, i uint64) (word int, bit uint64) {
	at := (h&0xffffffff + i*(h>>32|1)) % metBits
	return int(at / 64), 1 << (at % 64)
}
