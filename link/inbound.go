package link

import (
	"context"
	"errors"
	"time"
)

// Answerer answers one call of the other node. It embeds Inbound.
type Answerer interface {
	inbound() *Inbound
	// Answer makes the answer, on a goroutine of its own. Its context ends with the
	// caller's deadline, when the caller cancels, and with the link. The bulk is the
	// value that followed the call, or nil.
	Answer(ctx context.Context, bulk []byte)
	// Refuse makes an answer that says err: there was no room for the call's value
	// (ErrCrowded), or the answer does not fit in a frame (ErrFrameSize).
	Refuse(err error)
	// AppendAnswer appends the body of the answer. It is called under a lock.
	AppendAnswer(b []byte) []byte
	// BulkAnswer is a value that follows the body in chunks, or nil.
	BulkAnswer() []byte
	// Written is called once: when the answer has been written to the connection, or
	// when that has become impossible.
	Written(ok bool)
}

// Inbound is one call of the other node, until it is answered. Handler.Called sets
// the exported fields.
type Inbound struct {
	// Answered says that the answer is there already: Answer is not called.
	Answered bool
	// Bulk is how long the value is that follows the call in chunks; 0: none follows.
	Bulk int
	// Timeout is the caller's, from now; 0: it has none.
	Timeout time.Duration
	// Changes says that the call changes something. It may begin later: see deferred.
	Changes bool

	in       *Incoming
	answerer Answerer
	id       uint64
	began    int64
	ctx      context.Context
	cancel   context.CancelFunc
	arriving assembly
}

func (c *Inbound) inbound() *Inbound { return c }
func (c *Inbound) requestID() uint64 { return c.id }
func (c *Inbound) bulk() []byte      { return c.answerer.BulkAnswer() }
func (c *Inbound) written(ok bool)   { c.answerer.Written(ok) }

func (c *Inbound) appendTo(b []byte) []byte {
	start := len(b)
	b = c.in.w.stamp(b, frameAnswer, c.id)
	return endFrame(c.answerer.AppendAnswer(b), start, 0)
}

// answer has a call answered, and sends the answer.
func (c *Inbound) answer() {
	defer c.cancel()
	if !c.Answered {
		bulk := c.arriving.value
		c.arriving.value = nil // the answerer may let go of it
		c.answerer.Answer(c.ctx, bulk)
	}
	c.send()
}

// send queues the final answer.
func (c *Inbound) send() {
	c.in.mu.Lock()
	delete(c.in.calls, c.id) // before the caller can know, and use the slot again
	delete(c.in.waits, c.id)
	c.in.mu.Unlock()
	err := c.in.w.send(c.in.ctx, c, nil)
	if errors.Is(err, ErrFrameSize) {
		c.answerer.Refuse(err)
		err = c.in.w.send(c.in.ctx, c, nil)
	}
	if err != nil {
		c.answerer.Written(false)
	}
}
