package link

import "time"

// A call that waits for a load, or otherwise takes long, must not keep others from the
// link: some slow keys would hold all slots, and each hit would wait for them. So the
// node that answers says with a loading frame that the call takes long, and from then
// on the call has no slot. Such calls have a bound of their own, maxWaits in place of
// maxCalls. The node that answers moves the call before it sends the frame, and the
// caller frees the slot after it has read the frame. So the caller never counts fewer
// calls in slots than the other node does.
//
// The body of a loading frame may say what the call waits for.

const (
	// MaxProgress is the longest body of a loading frame, in bytes.
	MaxProgress = 9
	// maxWaits bounds the calls of one link that wait. A call beyond it keeps its slot.
	maxWaits = 16 << 10

	// loadingAfter is how long a call may run before its caller is told.
	loadingAfter = 50 * time.Millisecond
)

// waitsLocked moves a call to those that wait, if it is not answered yet and
// there is room.
func (in *Incoming) waitsLocked(c *Inbound) bool {
	if in.calls[c.id] != c || len(in.waits) >= maxWaits {
		return false
	}
	delete(in.calls, c.id)
	in.waits[c.id] = c
	return true
}

// Progress tells the caller what its call waits for. ErrCrowded: too many calls wait
// already. A caller of the first protocol does not understand that, and is only told
// by Watch that a call takes long.
func (c *Inbound) Progress(says ...byte) error {
	in := c.in
	if !in.freesSlots {
		return nil
	}
	in.mu.Lock()
	unanswered := in.calls[c.id] == c
	known := in.waits[c.id] == c || in.waitsLocked(c)
	in.mu.Unlock()
	switch {
	case known:
		in.w.order(frameLoading, c.id, says...)
	case unanswered:
		return ErrCrowded
	}
	return nil
}

// tellSlow tells the callers of calls that take long.
func (in *Incoming) tellSlow(now int64) {
	var slow []uint64
	in.mu.Lock()
	for id, c := range in.calls {
		if time.Duration(now-c.began) >= loadingAfter && in.waitsLocked(c) {
			slow = append(slow, id)
		}
	}
	in.mu.Unlock()
	for _, id := range slow {
		in.w.order(frameLoading, id)
	}
}

// progress takes a loading frame: the call gives back its slot.
func (l *Outgoing) progress(h header) error {
	return l.reader.body(h, func(says []byte) error {
		if !l.freesSlots {
			return nil
		}
		l.mu.Lock()
		c, sent := l.calls[h.id], h.id > 0 && h.id <= l.last
		if c != nil && !c.waits {
			c.waits = true
			<-l.slots
		}
		l.mu.Unlock()
		if !sent {
			return ErrBadFrame
		}
		if c == nil || len(says) == 0 {
			return nil // an answer may have overtaken the frame
		}
		return c.caller.Progress(says)
	})
}
