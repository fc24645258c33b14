package peers

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"kring/cache"
	"kring/link"
)

// incoming is a link that another member opened for its calls. It is the link's
// Handler.
type incoming struct {
	*link.Incoming
	p           *Peers
	pe          *peer
	incarnation uint64        // the member's
	maxValue    int           // the longest that the member takes, in bytes
	delivered   atomic.Uint64 // counted answers to gets that were written: see account
}

// A call is answered in one of two places. What needs no waiting, a stored value most
// of all, is answered by the reader of the link (stored): a goroutine and a context
// cost more than the answer itself, and most gets are hits. All else may wait (for a
// load, a write, another node), and the reader must not: it also takes cancels and
// answers pings, which would then wait as well, and the caller would think this node
// silent. So the link has it answered on a goroutine of its own (Answer), with a
// context that ends with the caller's deadline or cancel.
//
// When an answer is made is not when it counts. It is in the books only once it was
// written to the link (Written): the caller counts one that it did not get as
// abandoned. An error crosses the link as a code with a detail that a client may see.
// Its cause stays here, in the log.

// Called takes a call, and answers it here if that needs no waiting.
func (in *incoming) Called(view uint64, body []byte) (link.Answerer, error) {
	req, total, err := parseRequest(body, in.p.maxValue)
	if err != nil {
		return nil, err
	}
	c := &inbound{in: in, call: Inbound{From: in.pe.id, View: view, Request: req, maxValue: in.maxValue, frame: link.MaxMeta}}
	c.call.Waiting = c
	c.Timeout, c.Changes = req.remaining, c.call.Changes()
	if total > link.ChunkLen {
		c.Bulk = total
	}
	c.Answered = c.stored()
	return c, nil
}

// inbound is one call of another member: a link.Answerer.
type inbound struct {
	link.Inbound
	in    *incoming
	call  Inbound
	reply Reply
}

// stored makes the reply to a call that needs no waiting, and reports whether it has.
func (c *inbound) stored() (ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			c.logPanic(cause)
			ok = c.call.Op == OpGetMany // with what it has so far; a get is answered by Answer
		}
	}()
	if ok = c.in.p.handler.Stored(&c.call, &c.reply); !ok {
		c.reply = Reply{}
		return false
	}
	c.fit()
	return true
}

// Answer has the handler answer the call.
func (c *inbound) Answer(ctx context.Context, bulk []byte) {
	if bulk != nil {
		c.call.Value = bulk
	}
	if c.call.requestID != "" {
		ctx = context.WithValue(ctx, cache.RequestIDKey{}, c.call.requestID)
	}
	c.act(ctx)
	c.fit()
}

func (c *inbound) act(ctx context.Context) {
	defer func() {
		if cause := recover(); cause != nil {
			c.reply = Reply{Err: cache.ErrInternal}
			c.logPanic(cause)
		}
	}()
	c.reply = c.in.p.handler.Answer(ctx, &c.call)
	err := c.reply.Err
	if err == nil {
		return
	}
	if _, known := errors.AsType[*cache.Error](err); !known && errors.Is(ctx.Err(), context.Canceled) {
		c.reply.cancelled = true
		err = cache.ErrInternal.With("the caller went away")
	}
	c.fail(err)
}

func (c *inbound) logPanic(cause any) {
	c.in.p.log.Error("panic while a peer's call was served", slog.String("peer", c.in.pe.id), slog.Any("panic", cause))
}

// fail makes err the answer. What a client may not see is for the log.
func (c *inbound) fail(err error) {
	if code, _, _ := errorCode(err); code == cache.ErrInternal.Code && !c.reply.cancelled {
		c.in.p.log.Error("peer's call failed", slog.String("peer", c.in.pe.id), slog.Any("error", err))
	}
	c.reply.Err = err
	c.reply.Answer.Entry = nil
}

// Refuse makes an error the answer, because a value or the answer itself does not fit.
func (c *inbound) Refuse(err error) {
	if errors.Is(err, link.ErrFrameSize) {
		c.fail(cache.ErrOriginBadAnswer.With("headers too large"))
		return
	}
	c.fail(cache.ErrOverloaded.With("too many big values at once"))
}

// fit replaces a value that the caller could not take.
func (c *inbound) fit() {
	if len(c.reply.value()) > c.in.maxValue {
		c.fail(cache.ErrOriginBadAnswer.With("larger than the link to the node that asked can take"))
	}
}

// Loading tells the caller which load its get waits for: see cache.Waiting.
func (c *inbound) Loading(load uint64, starter bool) error {
	if err := c.Progress(appendLoading(make([]byte, 0, link.MaxProgress), load, starter)...); err != nil {
		return cache.ErrOverloaded.With("too many calls from one node wait for loads")
	}
	return nil
}

// AppendAnswer appends the reply.
func (c *inbound) AppendAnswer(b []byte) []byte { return appendReply(b, &c.reply, time.Now()) }

// BulkAnswer is the reply's value, if it is large.
func (c *inbound) BulkAnswer() []byte {
	if v := c.reply.value(); len(v) > link.ChunkLen {
		return v
	}
	return nil
}

// Written enters a get in the books of the node that has served it: as served, or as
// lost.
func (c *inbound) Written(ok bool) {
	counted := c.call.counted(&c.reply)
	switch {
	case ok:
		c.in.delivered.Add(counted)
	case c.reply.PassedOn:
		c.in.pe.account.unclaimed.Add(int64(counted)) // the node that served it has counted it, and the caller does not get it
	}
	if c.reply.PassedOn {
		return
	}
	if c.reply.Counted {
		c.in.p.handler.Delivered(c.reply.Answer.Kind, ok)
	}
	for i := range c.reply.Many {
		if kind := c.reply.Many[i].Kind; kind != cache.KindNone {
			c.in.p.handler.Delivered(kind, ok)
		}
	}
}
