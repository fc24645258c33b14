package peers

import (
	"context"
	"fmt"

	"kring/cache"
)

// Room is the memory that large values of other nodes' answers may take here,
// those of more than one chunk. It is charged before such a value arrives, and
// until the caller's context ends.
type Room interface {
	// Take charges a value of so many bytes, unless there is no room at once.
	// The entry stands for the value, which it does not have yet.
	Take(e *cache.Entry, bytes int) bool
	// Wait is Take for a caller that can wait for a moment. Its error is one
	// for the client.
	Wait(ctx context.Context, e *cache.Entry, bytes int) error
	// Give ends what Take or Wait began.
	Give(e *cache.Entry)
}

// boundless is the Room of a node that has no limit.
type boundless struct{}

func (boundless) Take(*cache.Entry, int) bool                   { return true }
func (boundless) Wait(context.Context, *cache.Entry, int) error { return nil }
func (boundless) Give(*cache.Entry)                             {}

// noRoomError fails a call whose answer has a value that there is no room for.
type noRoomError struct{ bytes int }

func (e *noRoomError) Error() string { return fmt.Sprintf("no room for a value of %d bytes", e.bytes) }

// charge finds room for the value of an answer that is about to arrive. Without
// it the caller gets a noRoomError at once, and the value is thrown away as it
// comes: the link's reader waits for nobody.
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

// Discard gives back the room of a value that nobody waits for any more.
func (c *call) Discard() {
	if c.charged {
		c.charged = false
		if c.req.into == nil || c.reply.Answer.Entry != c.req.into { // its caller gives that back
			c.l.pe.p.room.Give(c.reply.Answer.Entry)
		}
	}
}

// call makes one call and waits for its final answer. Without one it returns
// link.ErrSilent, link.ErrClosed, ctx's error, or one for the client.
func (l *outgoing) call(ctx context.Context, req *Request) (Reply, error) {
	c, err := l.begin(ctx, req)
	if err != nil {
		return Reply{}, err
	}
	return c.wait(ctx)
}

// callWithRoom makes a call. If there is no room for its answer it waits for
// some, and calls again: the node that was asked has the value at hand.
func (l *outgoing) callWithRoom(ctx context.Context, req *Request) (Reply, error) {
	room := l.pe.p.room
	r, err := l.call(ctx, req)
	full, is := err.(*noRoomError) //nolint:errorlint // made by charge and never wrapped
	if !is {
		return r, err
	}
	again := *req
	again.into, again.room = new(cache.Entry), full.bytes
	if err := room.Wait(ctx, again.into, again.room); err != nil {
		return Reply{}, err
	}
	l.pe.calls.Add(1)
	r, err = l.call(ctx, &again)
	if err != nil || r.Answer.Entry != again.into {
		room.Give(again.into)
	}
	if _, is := err.(*noRoomError); is { //nolint:errorlint // as above
		err = cache.ErrOverloaded.With("the value has grown while room was made for it")
	}
	return r, err
}

// keepCharged leaves an answer's value charged until ctx ends: by then the
// caller has passed it on.
func (c *call) keepCharged(ctx context.Context) {
	if c.charged {
		e := c.reply.Answer.Entry
		context.AfterFunc(ctx, func() { c.l.pe.p.room.Give(e) })
	}
}
