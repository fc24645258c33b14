package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kring/cache"
)

// maxTries bounds the calls that one request makes to one member whose link
// breaks and comes back under it.
const maxTries = 3

// Forward hands a client's request to the node that acts for its key, and to
// the next one if that does not answer. cache.ErrActHere: it is this node.
//
// A get ends with the caller's time as ErrOriginTimeout, a write as
// ErrWriteUnconfirmed: it may have happened, or happen yet. A write goes to
// another member only when the circuit of the first is open, with the same id.
//
// A put's value may still be on its way when Forward has returned: it must not
// be changed afterwards.
func (p *Peers) Forward(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	r, err := p.ask(ctx, req, 1, "")
	if errors.Is(err, cache.ErrActHere) {
		return cache.Answer{}, cache.ErrActHere
	}
	if over := asRefusedHere(err); over != nil {
		return cache.Answer{Kind: cache.KindRefused}, over.err
	}
	if req.Op == cache.OpGet && !r.shared && (err != nil || !r.counted) {
		p.abandoned.Add(1) // a counted answer that comes yet takes it back
	}
	if err != nil {
		return cache.Answer{Kind: cache.KindPeer}, err
	}
	if req.Op == cache.OpGet && r.err == nil && r.answer.Entry == nil {
		r.err = cache.ErrInternal.Because(fmt.Errorf("%s answered a get with neither an entry nor an error", r.answer.Node))
	}
	r.answer.OwnerKind, r.answer.Kind = r.answer.Kind, cache.KindPeer
	if r.shared {
		r.answer.Kind = cache.KindJoined
	}
	return r.answer, r.err
}

// ask finds who acts for a request and calls it until an answer comes. asker
// is the node that a request to be passed on came from. The error is
// ErrActHere, or one that may be given to the client.
func (p *Peers) ask(ctx context.Context, req *cache.Request, hop uint8, asker string) (reply, error) {
	var excluded, tried []string
	notOwner := 0
	for {
		id, _ := p.acting(p.view.Load(), req.Key.Key, excluded)
		if id == p.self {
			return reply{}, cache.ErrActHere
		}
		if id == asker {
			return reply{notOwner: true}, nil
		}
		r, err := p.try(ctx, p.others[id], &request{Request: *req, hop: hop})
		switch {
		case err == nil && r.notOwner && hop > 1:
			return r, nil
		case err == nil && r.notOwner:
			p.notOwner.Add(1)
			if notOwner++; notOwner > 1 {
				return reply{}, cache.ErrActHere
			}
			continue
		case err == nil:
			return r, nil
		case errors.Is(err, errAskAgain):
			continue
		case ctx.Err() != nil || !failedTry(err):
			return reply{}, outcome(ctx, req.Op, err)
		}
		tries := count(tried, id)
		tried = append(tried, id)
		if tries+1 < maxTries {
			continue // its circuit is open by now, or there is a new link
		}
		if req.Op != cache.OpGet {
			return reply{}, cache.ErrWriteUnconfirmed.Because(err)
		}
		excluded = append(excluded, id)
	}
}

// try makes one call to a member, if it can be called.
func (p *Peers) try(ctx context.Context, pe *peer, req *request) (reply, error) {
	l, err := pe.callable(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return reply{}, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if req.remaining = time.Until(deadline); req.remaining <= 0 {
			return reply{}, context.DeadlineExceeded
		}
		req.deadline = deadline
	}
	if req.Op == cache.OpGet {
		req.requestID, _ = ctx.Value(cache.RequestIDKey{}).(string)
	}
	pe.calls.Add(1)
	r, err := l.callWithRoom(ctx, req)
	if err == nil && r.cancelled {
		err = errLinkClosed // this side did not ask for it: the member is stopping
	}
	if failedTry(err) {
		pe.failed.Add(1)
	}
	return r, err
}

// failedTry says whether a call failed because of the link or the member.
func failedTry(err error) bool {
	return errors.Is(err, errSilent) || errors.Is(err, errLinkClosed)
}

// callable returns the link to a member. While one is being made it waits: the
// monitor opens the circuit when that takes too long.
func (pe *peer) callable(ctx context.Context) (*link, error) {
	if l := pe.link.Load(); l != nil && !l.w.ended.Load() {
		return l, nil
	}
	for {
		open, changed := pe.state()
		if open {
			return nil, errSilent
		}
		if l := pe.link.Load(); l != nil && !l.w.ended.Load() {
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

// outcome is the error that a client gets for one of a call that was the last.
func outcome(ctx context.Context, op cache.Op, err error) error {
	if failedTry(err) {
		err = ctx.Err() // no time is left for another member
	}
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case op == cache.OpGet:
		return cache.ErrOriginTimeout.Because(err)
	}
	return cache.ErrWriteUnconfirmed.Because(err)
}

func count(list []string, s string) int {
	n := 0
	for ; slices.Contains(list, s); n++ {
		list = list[slices.Index(list, s)+1:]
	}
	return n
}
