package peers

import (
	"context"
	"errors"
	"time"

	"kring/cache"
	"kring/link"
)

// Call makes one call to a member, if it can be called, and waits for its final
// answer. Without one the error is a NoAnswer, ErrAskAgain, a *RefusedHere, the
// context's, or one of package cache.
//
// A put's value may still be on its way when Call has returned: the caller must
// not change it afterwards.
func (p *Peers) Call(ctx context.Context, member string, req *Request) (Reply, error) {
	pe := p.others[member]
	l, err := pe.callable(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Reply{}, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if req.remaining = time.Until(deadline); req.remaining <= 0 {
			return Reply{}, context.DeadlineExceeded
		}
		req.deadline = deadline
	}
	if req.Op == cache.OpGet {
		req.requestID, _ = ctx.Value(cache.RequestIDKey{}).(string)
	}
	pe.calls.Add(1)
	r, err := l.callWithRoom(ctx, req)
	if err == nil && r.cancelled {
		err = link.ErrClosed // this node has not cancelled: the member is stopping
	}
	if NoAnswer(err) {
		pe.failed.Add(1)
	}
	return r, err
}

// NoAnswer reports whether a call failed because of the link or the member.
func NoAnswer(err error) bool {
	return errors.Is(err, link.ErrSilent) || errors.Is(err, link.ErrClosed)
}

// callable returns the link to a member, and waits while one is being made. The
// monitor opens the circuit when that takes too long.
func (pe *peer) callable(ctx context.Context) (*outgoing, error) {
	if l := pe.link.Load(); l != nil && !l.Ended() {
		return l, nil
	}
	for {
		open, changed := pe.state()
		if open {
			return nil, link.ErrSilent
		}
		if l := pe.link.Load(); l != nil && !l.Ended() {
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-pe.p.ctx.Done():
			return nil, cache.ErrDraining
		}
	}
}

// Pending is a call that has begun. Wait must follow.
type Pending struct {
	call *call
}

// Begin sends a call if there is a link to the member. It does not wait for a link.
func (p *Peers) Begin(ctx context.Context, member string, req *Request) (Pending, bool) {
	pe := p.others[member]
	l := pe.link.Load()
	if l == nil || l.Ended() {
		return Pending{}, false
	}
	pe.calls.Add(1)
	c, err := l.begin(ctx, req)
	if NoAnswer(err) {
		pe.failed.Add(1)
	}
	return Pending{c}, err == nil
}

// Wait waits for the call's final answer. Errors are Call's.
func (b *Pending) Wait(ctx context.Context) (Reply, error) {
	r, err := b.call.wait(ctx)
	if NoAnswer(err) {
		b.call.l.pe.failed.Add(1)
	}
	return r, err
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

// callWithRoom makes a call. If there is no room for the answer it waits for room,
// and calls again: the member has the value stored by then.
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
