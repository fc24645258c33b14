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
	began   int64
	call    Inbound
	ctx     context.Context
	cancel  context.CancelFunc
	partial assembly
	reply   Reply
	ready   bool // the reply is there: Handler.Stored has made it
}

// answer answers a call, on a goroutine of its own.
func (s *served) answer() {
	defer s.cancel()
	if !s.ready {
		s.act()
	}
	s.send()
}

// stored makes the reply to a call that needs no waiting, and reports whether it
// could. The reader of the link calls it: most gets need neither a goroutine nor a
// context.
func (s *served) stored() (ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			s.in.p.log.Error("panic while a peer's call was served", slog.String("peer", s.in.id), slog.Any("panic", cause))
			ok = s.call.Op == OpGetMany // with what it has; a get has its turn on a goroutine
		}
	}()
	if ok = s.in.p.handler.Stored(&s.call, &s.reply); ok {
		s.fit()
	}
	return ok
}

// act has the handler answer the call.
func (s *served) act() {
	defer func() {
		if cause := recover(); cause != nil {
			s.reply = Reply{Err: cache.ErrInternal}
			s.in.p.log.Error("panic while a peer's call was served", slog.String("peer", s.in.id), slog.Any("panic", cause))
		}
	}()
	s.reply = s.in.p.handler.Answer(s.ctx, &s.call)
	if s.reply.Err != nil {
		s.fail(s.reply.Err)
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
	}
	if code, _, _ := errorCode(err); code == cache.ErrInternal.Code && !s.reply.cancelled {
		s.in.p.log.Error("peer's call failed", slog.String("peer", s.in.id), slog.Any("error", err))
	}
	s.reply.Err = err
	s.reply.Answer.Entry = nil
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
	counted := s.call.counted(&s.reply)
	switch {
	case ok:
		s.in.settled.Add(counted)
	case s.reply.PassedOn:
		s.in.p.abandoned.Add(-int64(counted)) // the node that served it has counted it, and the caller will not know
	}
	if s.reply.PassedOn {
		return
	}
	if s.reply.Counted {
		s.in.p.handler.Delivered(s.reply.Answer.Kind, ok)
	}
	for i := range s.reply.Many {
		if kind := s.reply.Many[i].Kind; kind != cache.KindNone {
			s.in.p.handler.Delivered(kind, ok)
		}
	}
}
