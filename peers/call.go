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
		err = link.ErrClosed // this side did not ask for it: the member is stopping
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

// callable returns the link to a member. While one is being made it waits: the
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
