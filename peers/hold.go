package peers

import (
	"slices"

	"kring/internal/sockets"
)

// held is a call that changes something and has not begun.
//
// A node that was paused finds calls in its sockets that their callers have
// given up since: their cancel frames, or the link's end, are there as well,
// only later in the stream. So such a call begins when everything has been read
// that had arrived by the time it was: a write that was given up is not carried
// out after others that were acknowledged meanwhile.
type held struct {
	s   *served
	due int64 // what incoming.taken must come to; 0: not known yet
}

// start has a call that was read answered, now or when it is due.
func (in *incoming) start(s *served) {
	if s.call.Changes() {
		in.held = append(in.held, held{s: s})
		return
	}
	in.workers.Go(s.answer)
}

// release begins the held calls that are due; the reader calls it between two
// frames. Bytes, not time, say when: on a busy link there is always more to
// read. Once the link's end is in sight none of them begins any more.
func (in *incoming) release() {
	if len(in.held) == 0 {
		return
	}
	buffered := in.reader.buffered()
	if buffered < headerLen || in.held[len(in.held)-1].due == 0 {
		waiting, err := sockets.Unread(in.w.conn)
		if err != nil {
			return
		}
		due := in.taken + int64(buffered+waiting)
		if buffered+waiting < headerLen {
			due = in.taken // what has come of the next frame says nothing yet
		}
		for i := range in.held {
			if h := &in.held[i]; h.due == 0 || h.due > due {
				h.due = due
			}
		}
	}
	begun := 0
	for ; begun < len(in.held) && in.held[begun].due <= in.taken; begun++ {
		in.workers.Go(in.held[begun].s.answer)
	}
	in.held = slices.Delete(in.held, 0, begun)
}
