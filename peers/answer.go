package peers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"kring/cache"
)

// served is one call that is being answered.
type served struct {
	in      *incoming
	id      uint64
	view    uint64 // the caller's
	began   int64
	req     request
	ctx     context.Context
	cancel  context.CancelFunc
	partial assembly
	reply   reply
	ready   bool       // the reply is there, see stored.go
	kind    cache.Kind // to settle; KindNone: nothing
	passed  bool       // the answer is another node's
}

// answer answers a call, on a goroutine of its own.
func (s *served) answer() {
	defer s.cancel()
	if !s.ready {
		s.act()
	}
	s.send()
}

// act does what the call asks for, or has it done by who should.
func (s *served) act() {
	p, key := s.in.p, s.req.Key
	defer func() {
		if cause := recover(); cause != nil {
			s.reply, s.kind = reply{err: cache.ErrInternal}, cache.KindNone
			p.log.Error("panic while a peer's call was served", slog.String("peer", s.in.id), slog.Any("panic", cause))
		}
	}()
	if s.changes() && s.ctx.Err() != nil {
		s.fail(s.ctx.Err())
		return
	}
	switch s.req.Op {
	case opPurge:
		p.handler.DropGroup(key.Group)
		return
	case opPurgeTags:
		p.handler.DropTags(key.Group, s.req.tags)
		return
	case opCopy:
		if c, ok := p.handler.Copy(key); ok || c.LastLoad != nil {
			s.reply.copy = &c
		}
		return
	}
	v := p.view.Load()
	acting, _ := p.acting(v, key.Key, nil)
	switch {
	case acting == p.self && s.view == v.Number:
		s.serve()
	case acting == s.in.id || s.req.hop > 1 || s.view != v.Number:
		s.reply.notOwner = true
	default:
		p.passedOn.Add(1)
		r, err := p.ask(s.ctx, &s.req.Request, 2, s.in.id)
		switch {
		case errors.Is(err, cache.ErrActHere):
			s.serve()
		case err != nil:
			s.fail(err)
		default:
			s.reply, s.passed = r, true
		}
	}
}

// serve has this node act.
func (s *served) serve() {
	answer, err := s.in.p.handler.Serve(s.ctx, &s.req.Request)
	if s.req.Op == cache.OpGet && answer.Kind != cache.KindNone {
		s.kind = answer.Kind
		s.reply.counted = true
	}
	s.reply.answer = answer
	if err != nil {
		s.fail(err)
	}
}

// fail makes err the answer. What a client may not see is for the log.
func (s *served) fail(err error) {
	var known *cache.Error
	switch {
	case errors.As(err, &known):
	case s.ctx.Err() != nil && errors.Is(s.ctx.Err(), context.Canceled):
		s.reply.cancelled = true
		err = cache.ErrInternal.With("the caller went away")
	case errors.Is(err, context.DeadlineExceeded):
		err = outcome(s.ctx, s.req.Op, err)
	}
	if code, _, _ := errorCode(err); code == cache.ErrInternal.Code && !s.reply.cancelled {
		s.in.p.log.Error("peer's call failed", slog.String("peer", s.in.id), slog.Any("error", err))
	}
	s.reply.err = err
	s.reply.answer.Entry = nil
}

// send queues the final answer; written is called when it is out, or never will be.
func (s *served) send() {
	s.in.mu.Lock()
	delete(s.in.calls, s.id) // before the caller can know, and use the slot again
	delete(s.in.waits, s.id)
	s.in.mu.Unlock()
	s.fit()
	err := s.in.w.send(s.in.ctx, s, nil)
	if errors.Is(err, errFrameSize) {
		s.fail(cache.ErrOriginBadAnswer.With("headers too large"))
		err = s.in.w.send(s.in.ctx, s, nil)
	}
	if err != nil {
		s.written(false)
	}
}

// fit replaces a value that the asker could not take.
func (s *served) fit() {
	if len(s.reply.value()) > s.in.maxValue {
		s.fail(cache.ErrOriginBadAnswer.With("larger than the link to the node that asked can take"))
	}
}

func (s *served) requestID() uint64 { return s.id }

func (s *served) appendTo(b []byte) []byte {
	start := len(b)
	b = s.in.w.stamp(b, frameAnswer, s.id)
	return endFrame(appendReply(b, &s.reply, time.Now()), start, 0)
}

func (s *served) bulk() []byte {
	if v := s.reply.value(); len(v) > chunkLen {
		return v
	}
	return nil
}

// written keeps the books: a get is counted where it was served, and only if
// its answer went out.
func (s *served) written(ok bool) {
	counted := s.req.counted(&s.reply)
	switch {
	case ok:
		s.in.settled.Add(counted)
	case s.passed:
		s.in.p.abandoned.Add(-int64(counted)) // the node that served it has counted it, and who asked will not know
	}
	if s.kind != cache.KindNone {
		s.in.p.handler.Settle(s.kind, ok)
	}
	for i := range s.reply.many {
		if kind := s.reply.many[i].Kind; kind != cache.KindNone {
			s.in.p.handler.Settle(kind, ok)
		}
	}
}
