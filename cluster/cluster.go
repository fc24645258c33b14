package cluster

import (
	"context"
	"sync/atomic"

	"kring/cache"
	"kring/membership"
	"kring/peers"
)

// Peers are the other members, as a Cluster calls them. *peers.Peers is one.
type Peers interface {
	// Self is this node's id, Others are those of the other members, in order.
	Self() string
	Others() []string
	// View is who is in the cluster. Standings are the members as this node sees
	// them.
	View() *membership.View
	Standings() *peers.Standings
	// Call makes one call to a member. Begin does so in two steps, and does not wait
	// for a link.
	Call(ctx context.Context, member string, req *peers.Request) (peers.Reply, error)
	Begin(ctx context.Context, member string, req *peers.Request) (peers.Pending, bool)
	// Down reports whether a member is not called, and whether its memory is lost.
	Down(ctx context.Context, member string) (open, gone bool)
	// Abandon counts a get without a counted answer; Stats has the count.
	Abandon()
	Stats() peers.Stats
}

// Cluster carries out requests, on whichever node acts for their keys. See the
// package comment. It is the Handler of its peers.
type Cluster struct {
	self  string
	cache *cache.Cache
	peers Peers

	notOwner, passedOn atomic.Uint64
}

// New joins a node's cache and its peers. It starts nothing.
func New(c *cache.Cache, p Peers) *Cluster { return &Cluster{self: p.Self(), cache: c, peers: p} }

// CheckKey says why a key cannot be asked for: ErrUnknownGroup, ErrBadKey,
// ErrKeyTooLong, or what the group's own check says.
func (c *Cluster) CheckKey(key cache.Key) error { return c.cache.CheckKey(key) }

// Stats are the books of this node, and counters of its calls.
type Stats struct {
	cache.Stats
	// NotOwner counts answers "not owner" that came back.
	NotOwner uint64 `json:"-"`
	// PassedOn counts calls that were passed on as a second hop.
	PassedOn uint64 `json:"-"`
}

// Stats is a copy of the books and counters.
func (c *Cluster) Stats() Stats {
	s := Stats{Stats: c.cache.Stats(), NotOwner: c.notOwner.Load(), PassedOn: c.passedOn.Load()}
	s.Abandoned = c.peers.Stats().Abandoned
	return s
}
