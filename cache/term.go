package cache

// Term names an unbroken stretch of time in which one node acts for a key. Another
// node may have overwritten what was stored in an earlier term, so such an entry is
// not served. The terms of one key on one node only grow.
type Term uint64

const (
	// OwnerTerm is the term of a key's owner.
	OwnerTerm Term = 0
	// Unowned is the term of a node that must act without being confirmed as the one
	// that acts. A get in it finds no entry, and its loads are never stored.
	Unowned = ^Term(0)
)

// StandIn reports whether the node acts in place of the key's owner.
func (t Term) StandIn() bool { return t != OwnerTerm }
