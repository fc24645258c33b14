package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"kring/cache"
	"kring/link"
)

// outgoing is this node's own link to a member, for its calls. It is the link's
// Peer.
type outgoing struct {
	*link.Outgoing
	pe          *peer
	incarnation uint64        // the member's
	maxValue    int           // the longest that the member takes, in bytes
	hearsUs     atomic.Bool   // what the last pong said
	received    atomic.Uint64 // counted answers to gets that came: see account
}

// Called reports whether the member's circuit is closed.
func (l *outgoing) Called() (called bool, changed <-chan struct{}) {
	open, changed := l.pe.state()
	return !open, changed
}

// Silent opens the member's circuit, and fails the calls to it.
func (l *outgoing) Silent() {
	opened := l.pe.open("silent", false)
	l.Fail(link.ErrSilent) // before it is logged: the log may be slow
	l.pe.tellOpen("silent", opened)
}

// call is one call on a link, and the answer to it: a link.Caller.
type call struct {
	link.Call
	l     *outgoing
	req   *Request
	reply Reply
	taken *Reply // another call's reply, in place of this one's: see sharing

	large   bool // the answer's value comes in chunks
	charged bool // that value has its room: see Room

	shared *shared // the call that it waits for, with others; nil: it is told of no load
}

// begin sends a call, which wait must follow.
func (l *outgoing) begin(ctx context.Context, req *Request) (*call, error) {
	if len(req.Value) > l.maxValue {
		return nil, cache.ErrValueTooLarge
	}
	c := &call{l: l, req: req}
	err := l.Begin(ctx, c)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, link.ErrFrameSize):
		err = cache.ErrKeyTooLong.Because(err)
	case errors.Is(err, link.ErrCrowded):
		err = cache.ErrOverloaded.Because(err)
	}
	return nil, err
}

// wait waits for the final answer.
func (c *call) wait(ctx context.Context) (Reply, error) {
	select {
	case <-c.Done():
	case <-ctx.Done():
		if c.l.pe.p.sharing.leave(c, ctx.Err()) {
			return Reply{}, ctx.Err()
		}
		<-c.Done()
	}
	if err := c.Err(); err != nil {
		c.Cancel()          // before the call is made elsewhere
		return Reply{}, err // the reader may be writing to c.reply
	}
	if c.taken != nil {
		return *c.taken, nil
	}
	c.keepCharged(ctx)
	return c.reply, nil
}

// fail ends the waiting with an error that is this node's own.
func (c *call) fail(err error) {
	if c.Leave(err) {
		c.Failed(err)
	}
}

// Failed gives the error to the gets that share the call.
func (c *call) Failed(err error) { c.l.pe.p.sharing.end(c, Reply{}, err) }

// AppendCall appends the request.
func (c *call) AppendCall(b []byte) []byte { return appendRequest(b, c.req) }

// Bulk is a put's value, if it is large.
func (c *call) Bulk() []byte {
	if c.req.Op == cache.OpPut && len(c.req.Value) > link.ChunkLen {
		return c.req.Value
	}
	return nil
}

// Head takes the answer, all but a large value.
func (c *call) Head(body []byte) (bulk int, err error) {
	r, total, err := parseReply(body, c.l.pe.p.maxValue, time.Now())
	if err != nil {
		return 0, err
	}
	if len(r.Many) > 0 && len(r.Many) != len(c.req.Keys) {
		return 0, link.ErrBadFrame
	}
	c.reply = r
	if total <= link.ChunkLen {
		return 0, nil
	}
	c.large = true
	if c.Waited() {
		c.charge(total)
	}
	return total, nil
}

// charge finds room for the value of an answer that is about to arrive. Without room
// the call fails with a noRoomError at once, and the value is thrown away as it
// arrives: the link's reader waits for nobody.
func (c *call) charge(total int) {
	e := c.reply.Answer.Entry
	if into := c.req.into; into != nil && c.req.room >= total {
		*into = *e
		c.reply.Answer.Entry, c.charged = into, true
		return
	}
	if c.charged = c.l.pe.p.room.Take(e, total); !c.charged {
		c.fail(&noRoomError{total})
	}
}

// Discard gives back the room of a value that no get waits for any more.
func (c *call) Discard() {
	if c.charged {
		c.charged = false
		if c.req.into == nil || c.reply.Answer.Entry != c.req.into { // its caller gives that back
			c.l.pe.p.room.Give(c.reply.Answer.Entry)
		}
	}
}

// keepCharged leaves an answer's value charged until ctx ends. The caller has passed
// the value on by then.
func (c *call) keepCharged(ctx context.Context) {
	if c.charged {
		e := c.reply.Answer.Entry
		context.AfterFunc(ctx, func() { c.l.pe.p.room.Give(e) })
	}
}

// Answered takes the whole answer. If the get of the call has left, the account takes
// note of that.
func (c *call) Answered(bulk []byte, waited bool) {
	if c.large {
		c.reply.Answer.Entry.Value = bulk
	}
	counted := c.req.counted(&c.reply)
	c.l.received.Add(counted)
	if !waited || c.l.pe.p.sharing.hasLeft(c) {
		c.Discard() // the gets that share it charge it themselves
		c.l.pe.account.unclaimed.Add(int64(counted))
	}
	if waited && c.shared != nil {
		c.l.pe.p.sharing.end(c, c.reply, c.othersError(time.Now()))
	}
}

// The body of a loading frame is empty, or says which load the call waits for:
//
//	0  8 bytes  the load's number
//	8  1 byte   1 if the call has started it, else 0
func appendLoading(b []byte, load uint64, starter bool) []byte {
	b = binary.BigEndian.AppendUint64(b, load)
	if starter {
		return append(b, 1)
	}
	return append(b, 0)
}

func parseLoading(b []byte) (load uint64, starter bool, err error) {
	d := link.Decoder{B: b}
	load = d.Uint64()
	starts := d.Byte()
	if starts > 1 {
		d.Fail("unknown flags of a load")
	}
	return load, starts == 1, d.End()
}

// Progress learns for which load the call waits. If another get of this node waits
// for it, too, the two share a call.
func (c *call) Progress(says []byte) error {
	load, starter, err := parseLoading(says)
	if err != nil || c.req.Op != cache.OpGet {
		return err
	}
	if w := c.req.Waiting; w != nil {
		if err := w.Loading(load, starter); err != nil {
			c.fail(&RefusedHere{Err: err})
			return nil
		}
	}
	if c.req.Hop == 1 && c.l.pe.p.sharing.join(c, load, starter) {
		c.Cancel()
	}
	return nil
}

// RefusedHere is the error of a get that this node does not let wait: its Waiting
// has returned Err.
type RefusedHere struct{ Err error }

func (r *RefusedHere) Error() string { return r.Err.Error() }
func (r *RefusedHere) Unwrap() error { return r.Err }

// ErrAskAgain is the error of a get that shared another get's call. That call has
// ended with an answer that is not for this get. The get needs a call of its own.
var ErrAskAgain = errors.New("the call that was shared has ended early")

// othersError is nil if the gets that share the call may take its answer. They may not
// if the answer is about the call alone: its own deadline has passed (theirs may be
// later), or the node that was asked acts no longer.
func (c *call) othersError(now time.Time) error {
	late := !c.req.deadline.IsZero() && !now.Before(c.req.deadline)
	switch {
	case c.reply.cancelled:
		return link.ErrClosed // the node that was asked is stopping
	case c.reply.NotOwner, late && errors.Is(c.reply.Err, cache.ErrOriginTimeout):
		return ErrAskAgain
	}
	return nil
}
