package link

// Node is this node, as its links present it to others. It must not be changed once
// there are links.
type Node struct {
	ID string
	// Secret is what both ends of a link must know; "": none.
	Secret string
	// Cluster is the cluster's name, and Ring says how its ring is made. Both ends of
	// a link must have the same.
	Cluster, Ring string
	// Incarnation tells this process from others with the same ID.
	Incarnation uint64
	// View is the number and the id of this node's view.
	View func() (number, id uint64)
	// MaxValue is the longest value that this node takes, in bytes.
	MaxValue uint64
	// Speaks is the newest protocol that this node speaks; 0 is Protocol.
	Speaks byte
	// Clock is the time on a monotonic clock, in nanoseconds.
	Clock func() int64
	// Check compares what a node says, which has proved that it knows the secret, with
	// the list of members. Its error should be a Refusal.
	Check func(c *Claim) error
}

// stamp appends the header of a frame from this node.
func (n *Node) stamp(b []byte, typ frameType, id uint64) []byte {
	view, _ := n.View()
	return appendHeader(b, typ, id, view, n.Incarnation)
}

func (n *Node) speaks() byte {
	if n.Speaks == 0 {
		return Protocol
	}
	return n.Speaks
}

// freesSlots reports whether a call that waits has no slot on a link to the node
// with a claim.
func (n *Node) freesSlots(c *Claim) bool { return min(n.speaks(), c.MaxProtocol) >= 2 }
