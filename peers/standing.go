package peers

import (
	"context"
	"slices"
	"time"

	"kring/membership"
)

// The states of a member, as this node sees it.
const (
	StateActive = "active" // its circuit is closed here, or it is this node
	StateDown   = "down"   // its circuit is open here
)

// Standing is how this node sees one member of the view.
type Standing struct {
	membership.Member
	// Incarnation tells one process of the member from the next; 0 while it is
	// not known.
	Incarnation uint64
	// State is StateActive or StateDown, Since when that began.
	State string
	Since time.Time
	// Reason is why the member is down, or "".
	Reason string

	// Outage is the number of the outage that keeps its circuit open; 0: none.
	// A node numbers all outages that it sees in one row, so none repeats.
	Outage uint64
}

// Standings are the members as this node sees them, in the order of the view.
// They are what one node thinks, and the view is what all agree on, so the two change
// at different times. A value is immutable and swapped whole.
type Standings struct {
	members []Standing
	Down    int // how many are in StateDown
}

// Of finds a member by id, or returns nil. Clusters are small: a walk is as
// quick as a map.
func (s *Standings) Of(id string) *Standing {
	for i := range s.members {
		if s.members[i].ID == id {
			return &s.members[i]
		}
	}
	return nil
}

// CanCall reports whether a member's circuit is closed.
func (s *Standings) CanCall(id string) bool {
	m := s.Of(id)
	return m != nil && m.State == StateActive
}

// Members are the members of the view as this node sees them.
func (p *Peers) Members() []Standing { return slices.Clone(p.standings.Load().members) }

// Standings are the members as this node sees them now.
func (p *Peers) Standings() *Standings { return p.standings.Load() }

// publishLocked swaps the standings for what the circuits say now, and wakes
// the requests that wait for a circuit or a link to change.
func (p *Peers) publishLocked() {
	v := p.view.Load()
	next := &Standings{members: make([]Standing, len(v.Members))}
	for i, m := range v.Members {
		s := Standing{Member: m, Incarnation: p.node.Incarnation, State: StateActive, Since: p.start}
		if pe := p.others[m.ID]; pe != nil {
			s.Incarnation, s.Since = pe.process, pe.circuit.since
			if pe.circuit.isOpen {
				s.State, s.Reason, s.Outage = StateDown, pe.circuit.reason, pe.circuit.outage
				next.Down++
			}
		}
		next.members[i] = s
	}
	p.standings.Store(next)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Down reports whether a member's circuit is open, and whether that is because
// nothing listens at its address: then its memory is lost. A process that is about to
// end may take one more connection, and breaks it. So while there is no link, Down
// waits a little for the result of the next attempt.
func (p *Peers) Down(ctx context.Context, member string) (open, gone bool) {
	pe := p.others[member]
	timer := time.NewTimer(firstContact)
	defer timer.Stop()
	for {
		p.mu.Lock()
		open, gone = pe.circuit.isOpen, pe.circuit.gone
		changed := p.changed
		p.mu.Unlock()
		if !open || gone || pe.link.Load() != nil {
			return open, gone
		}
		select {
		case <-changed:
		case <-timer.C:
			return open, gone
		case <-ctx.Done():
			return open, gone
		case <-p.ctx.Done():
			return open, gone
		}
	}
}
