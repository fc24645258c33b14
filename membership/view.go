package membership

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"kring/consistenthash"
)

// View is the members of the cluster and the ring over them. It is immutable; a
// change makes another View.
type View struct {
	// Number is 1: the static list is the only view.
	Number uint64
	// ID is equal on all nodes with the same list and ring parameters.
	ID uint64
	// Fingerprint is ID for people to read: a hash over the cluster's name, the
	// ring parameters and the members, in hexadecimal digits.
	Fingerprint string
	// Members are all nodes, in the order of their ids.
	Members []Member
	// Ring places keys on the members.
	Ring *consistenthash.Map

	shares map[string]float64
}

// StaticView is the view of the list cluster.peers. All nodes with this list
// have the same view. Its errors name the field and the value.
func StaticView(cfg Config) (*View, error) {
	if err := cfg.checkShared(); err != nil {
		return nil, err
	}
	members, err := parseList(cfg.Peers)
	if err != nil {
		return nil, err
	}
	return newView(cfg, members), nil
}

// OwnView is the static view of one node. self must be in the list. Without a
// list, self is the only member, and only then its URL counts. A zero weight of
// self means the configuration's.
func OwnView(cfg Config, self Member) (*View, error) {
	if err := cfg.checkShared(); err != nil {
		return nil, err
	}
	if self.Weight == 0 {
		self.Weight = cfg.Weight
	}
	if err := self.check(); err != nil {
		return nil, err
	}
	members := []Member{self}
	if len(cfg.Peers) > 0 {
		var err error
		if members, err = parseList(cfg.Peers); err != nil {
			return nil, err
		}
		if err := agree(members, self, cfg.Peers); err != nil {
			return nil, err
		}
	}
	return newView(cfg, members), nil
}

func newView(cfg Config, members []Member) *View {
	ring := consistenthash.New(cfg.VirtualNodes, hashes[cfg.Hash])
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %s", cfg.Name, cfg.RingParameters())
	for _, m := range members {
		ring.AddWeighted(m.ID, m.Weight)
		fmt.Fprintf(sum, " %q %q %d", m.ID, strings.ToLower(m.URL), m.Weight)
	}
	digest := sum.Sum(nil)
	return &View{
		Number: 1, ID: binary.BigEndian.Uint64(digest), Fingerprint: hex.EncodeToString(digest[:8]),
		Members: members, Ring: ring, shares: ring.Shares(),
	}
}

// Share is a member's part of the ring, 0 to 1.
func (v *View) Share(id string) float64 { return v.shares[id] }
