package peers

import (
	"encoding/binary"
	"errors"
	"time"

	"kring/cache"
)

// A call that waits for a load, or otherwise takes long, must not keep others
// from the link: a hundred slow keys would, and every hit behind them. So its
// caller is told with a loading frame, and from then on the call has no slot.
// The node that answers has moved it by then from those that it counts against
// maxCalls to those that wait, which have a bound of their own. It does so
// before it says so, and the caller frees the slot after it has heard so: the
// caller never counts fewer calls than the other side does.
//
// The body of a loading frame is empty, or says which load the call waits for:
//
//	0  8 bytes  the load's number
//	8  1 byte   1 if the call has started it, else 0

const (
	loadingLen = 9
	// maxWaits bounds the calls of one link that wait. A get beyond it is
	// answered with overloaded; other calls keep their slots.
	maxWaits = 16 << 10
)

func appendLoading(b []byte, load uint64, starter bool) []byte {
	b = binary.BigEndian.AppendUint64(b, load)
	if starter {
		return append(b, 1)
	}
	return append(b, 0)
}

func parseLoading(b []byte) (load uint64, starter bool, err error) {
	d := decoder{b: b}
	load = d.uint64()
	starts := d.byte()
	if starts > 1 {
		d.fail("unknown flags of a load")
	}
	return load, starts == 1, d.end()
}

// waitsLocked moves a call to those that wait, if it is not answered yet and
// there is room.
func (in *incoming) waitsLocked(s *served) bool {
	if in.calls[s.id] != s || len(in.waits) >= maxWaits {
		return false
	}
	delete(in.calls, s.id)
	in.waits[s.id] = s
	return true
}

// Loading tells the caller which load its get waits for: see cache.Waiting. A
// caller of the first protocol is told only what it understands, by watch.
func (s *served) Loading(load uint64, starter bool) error {
	in := s.in
	if !in.freesSlots {
		return nil
	}
	in.mu.Lock()
	unanswered := in.calls[s.id] == s
	known := in.waits[s.id] == s || in.waitsLocked(s)
	in.mu.Unlock()
	switch {
	case known:
		in.w.order(frameLoading, s.id, appendLoading(make([]byte, 0, loadingLen), load, starter)...)
	case unanswered:
		return cache.ErrOverloaded.With("too many calls from one node wait for loads")
	}
	return nil
}

// loading takes a loading frame: the call gives back its slot, and if it waits
// for a load that another get of this node waits for, too, the two share a call.
func (l *link) loading(id uint64, b []byte) error {
	if !l.freesSlots {
		return nil
	}
	l.mu.Lock()
	c, sent := l.calls[id], id > 0 && id <= l.last
	if c != nil && !c.waits {
		c.waits = true
		<-l.slots
	}
	l.mu.Unlock()
	if !sent {
		return errBadFrame
	}
	if len(b) == 0 {
		return nil
	}
	load, starter, err := parseLoading(b)
	if err != nil || c == nil || c.req.Op != cache.OpGet {
		return err // an answer may have overtaken the frame
	}
	if w := c.req.Waiting; w != nil {
		err = w.Loading(load, starter)
	}
	l.mu.Lock()
	handedOver := false
	switch {
	case c.left:
	case err != nil:
		l.leaveLocked(c, &RefusedHere{Err: err})
	case c.req.Hop == 1:
		if handedOver = l.pe.p.sharing.join(c, load, starter); handedOver {
			c.left = true
			l.waiting--
		}
	}
	l.mu.Unlock()
	if handedOver {
		l.w.order(frameCancel, c.id)
	}
	return nil
}

// RefusedHere is the error of a get that this node does not let wait: its Waiting
// has returned Err.
type RefusedHere struct{ Err error }

func (r *RefusedHere) Error() string { return r.Err.Error() }
func (r *RefusedHere) Unwrap() error { return r.Err }

// ErrAskAgain is the error of a get that shared another get's call. The call has
// ended, and its outcome is not for this get: the get needs a call of its own.
var ErrAskAgain = errors.New("the call that was shared has ended early")

// othersError is nil if those who share the call may take its answer. They may
// not if it is about the call alone: that its own deadline has passed (theirs
// may be later), or that the node asked does not act any more.
func (c *call) othersError(now time.Time) error {
	late := !c.req.deadline.IsZero() && !now.Before(c.req.deadline)
	switch {
	case c.reply.cancelled:
		return errLinkClosed // the node asked is stopping
	case c.reply.NotOwner, late && errors.Is(c.reply.Err, cache.ErrOriginTimeout):
		return ErrAskAgain
	}
	return nil
}
