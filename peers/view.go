package peers

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"kring/consistenthash"
)

// The states of a member in a view.
const (
	StateActive = "active" // its circuit is closed here, or it is this node
	StateDown   = "down"   // its circuit is open here
)

// View is who is in the cluster and who of them can be called, as this node
// sees it. It is immutable; a change makes another View.
type View struct {
	// Number is 1: the static list is the only view there is.
	Number uint64
	// ID is equal on all nodes with the same list and ring parameters.
	ID uint64
	// Fingerprint is ID for people: a hash over the cluster's name, the ring
	// parameters and the members.
	Fingerprint string
	// Members are all nodes, this one included, in the order of their ids.
	Members []ViewMember
	// Ring places keys on members, whatever their state.
	Ring *consistenthash.Map

	self string
	down int // members in StateDown
}

// ViewMember is a member and how this node sees it.
type ViewMember struct {
	Member           // Incarnation is 0 while unknown
	State  string    // StateActive or StateDown
	Since  time.Time // when State began
	Reason string    // why it is down, or ""
	Share  float64   // of the ring, 0 to 1

	// outage is the number of the outage that keeps its circuit open; 0: none.
	// A node numbers all outages it sees in one row, so none repeats.
	outage uint64
}

func newView(self string, members []Member, cfg Config, now time.Time) *View {
	ring := consistenthash.New(cfg.VirtualNodes, hashes[cfg.Hash])
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %s", cfg.Name, ringParameters(cfg))
	for _, m := range members {
		ring.AddWeighted(m.ID, m.Weight)
		fmt.Fprintf(sum, " %q %q %d", m.ID, strings.ToLower(m.URL), m.Weight)
	}
	digest := sum.Sum(nil)
	v := &View{
		Number: 1, ID: binary.BigEndian.Uint64(digest), Fingerprint: hex.EncodeToString(digest[:8]),
		Ring: ring, self: self,
	}
	shares := ring.Shares()
	for _, m := range members {
		v.Members = append(v.Members, ViewMember{Member: m, State: StateActive, Since: now, Share: shares[m.ID]})
	}
	return v
}

// ringParameters is what must be equal on all nodes, besides the members, for
// them to place keys alike.
func ringParameters(cfg Config) string {
	return fmt.Sprintf("hash=%s virtual_nodes=%d", cfg.Hash, cfg.VirtualNodes)
}

// with returns a view in which change was applied to the member id.
func (v *View) with(id string, change func(m *ViewMember)) *View {
	next := *v
	next.Members = append([]ViewMember(nil), v.Members...)
	next.down = 0
	for i := range next.Members {
		m := &next.Members[i]
		if m.ID == id {
			change(m)
		}
		if m.State == StateDown {
			next.down++
		}
	}
	return &next
}

// member finds a member by id, or returns nil. Clusters are small: a walk is
// as quick as a map.
func (v *View) member(id string) *ViewMember {
	for i := range v.Members {
		if v.Members[i].ID == id {
			return &v.Members[i]
		}
	}
	return nil
}
