package consistenthash

import (
	"slices"
	"sync"
	"sync/atomic"
)

// DefaultReplicas is the default number of virtual nodes for each unit of
// weight. With 10 members the fullest one then holds about 6 % more than the
// mean.
const DefaultReplicas = 512

// Map is a ring of members. It is safe for concurrent use. A read sees the ring
// between two changes, never half of a change.
type Map struct {
	replicas int
	hash     Hash
	label    label

	// mu serialises changes: each one starts from the last.
	mu   sync.Mutex
	ring atomic.Pointer[ring]
}

// New returns an empty Map whose members get replicas points for each unit of
// weight; less than 1 means DefaultReplicas.
//
// A nil hash means CRC32 (IEEE) with an avalanche finaliser and unambiguous
// labels. With any other hash, points have the labels of golang/groupcache: the
// index in decimal before the name.
func New(replicas int, hash Hash) *Map {
	m := &Map{replicas: replicas, hash: hash, label: groupcacheLabel}
	if replicas < 1 {
		m.replicas = DefaultReplicas
	}
	if hash == nil {
		m.hash, m.label = mixedCRC32, mixedLabel
	}
	m.ring.Store(newRing(nil, nil))
	return m
}

// Add puts members on the ring with weight 1. A member of the ring gets this
// weight. The empty name means "no member" and is ignored.
func (m *Map) Add(members ...string) {
	joining := make(map[string][]uint32, len(members))
	for _, member := range members {
		if member != "" {
			joining[member] = m.positions(member, 1)
		}
	}
	m.change(joining, nil)
}

// AddWeighted puts a member on the ring with weight times the points of a
// member of weight 1. A member of the ring gets this weight. A weight below 1
// takes the member off the ring. The empty name is ignored.
func (m *Map) AddWeighted(member string, weight int) {
	switch {
	case member == "":
	case weight < 1:
		m.Remove(member)
	default:
		m.change(map[string][]uint32{member: m.positions(member, weight)}, nil)
	}
}

// Remove takes members off the ring. Unknown names are ignored.
func (m *Map) Remove(members ...string) { m.change(nil, members) }

// Get returns the member that owns the key, or "" if the ring is empty.
func (m *Map) Get(key string) string {
	return m.ring.Load().owner(m.Hash(key))
}

// Owners returns the first n distinct members from the key's position on: its
// owner, then the member that owns it when the owner has left, and so on. The
// result is shorter if the ring has fewer members, and nil if the ring is empty
// or n is below 1.
func (m *Map) Owners(key string, n int) []string {
	return m.ring.Load().owners(m.Hash(key), n)
}

// Hash returns the key's position on the circle.
func (m *Map) Hash(key string) uint32 { return m.hash(stringBytes(key)) }

// Shares returns for each member the fraction of the circle that it owns. The
// fractions are exact, multiples of 2^-32, and add up to 1 unless the ring is
// empty.
func (m *Map) Shares() map[string]float64 { return m.ring.Load().shares() }

// Members returns the names on the ring in byte order. The caller owns the
// slice.
func (m *Map) Members() []string { return slices.Clone(m.ring.Load().members) }

// Len returns the number of members.
func (m *Map) Len() int { return len(m.ring.Load().members) }

// positions returns the points of a member of this weight. It is called outside
// mu, since the hash is the caller's code.
func (m *Map) positions(member string, weight int) []uint32 {
	positions := make([]uint32, m.replicas*weight)
	var buf []byte
	for i := range positions {
		buf = m.label(buf[:0], member, i)
		positions[i] = m.hash(buf)
	}
	return positions
}

// change replaces the ring by one without the members that leave and with the
// members that join; a joining member that is on the ring replaces itself.
func (m *Map) change(joining map[string][]uint32, leaving []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ring.Store(m.ring.Load().with(joining, leaving))
}
