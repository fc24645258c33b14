package link

import (
	"slices"

	"kring/internal/sockets"
)

// deferred is a call that changes something and has not begun.
//
// A node that was paused finds calls in its sockets that their callers have
// given up since: their cancel frames, or the link's end, are there as well,
// only later in the stream. So such a call begins when everything has been read
// that had arrived by the time it was: a write that was given up is not carried
// out after others that were acknowledged meanwhile.
type deferred struct {
	call *Inbound
	due  int64 // it begins when this much is taken; 0: not known yet
}

// start has a call that was read answered, now or when it is due.
func (in *Incoming) start(c *Inbound) {
	if c.Changes {
		in.deferred = append(in.deferred, deferred{call: c})
		return
	}
	in.workers.Go(c.answer)
}

// release begins the deferred calls that are due; the reader calls it between two
// frames. Bytes, not time, say when: on a busy link there is always more to
// read. Once the link's end is in sight none of them begins any more.
func (in *Incoming) release() {
	if len(in.deferred) == 0 {
		return
	}
	buffered := in.reader.buffered()
	if buffered < headerLen || in.deferred[len(in.deferred)-1].due == 0 {
		waiting, err := sockets.Unread(in.w.conn)
		if err != nil {
			return
		}
		due := in.taken + int64(buffered+waiting)
		if buffered+waiting < headerLen {
			due = in.taken // what has come of the next frame says nothing yet
		}
		for i := range in.deferred {
			if d := &in.deferred[i]; d.due == 0 || d.due > due {
				d.due = due
			}
		}
	}
	begun := 0
	for ; begun < len(in.deferred) && in.deferred[begun].due <= in.taken; begun++ {
		in.workers.Go(in.deferred[begun].call.answer)
	}
	in.deferred = slices.Delete(in.deferred, 0, begun)
}
