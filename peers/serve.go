package peers

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"kring/cache"
)

// maxPartial bounds values that are arriving in chunks on one link; a put
// beyond it is answered with overloaded.
const maxPartial = 64 << 20

// incoming is a link that another member opened for its calls.
type incoming struct {
	p           *Peers
	id          string
	incarnation uint64
	maxValue    int // its longest
	reader      frameReader
	w           *writer
	heard       atomic.Int64
	settled     atomic.Uint64 // answers of gets, counted here, that were written

	ctx     context.Context // ends with the link
	cancel  context.CancelFunc
	workers sync.WaitGroup

	partial      map[uint64]*served // puts whose value arrives; of the reader alone
	partialBytes int

	mu    sync.Mutex         // guards calls and the flags told in them
	calls map[uint64]*served // those without a final answer
}

// served is one call that is being answered.
type served struct {
	in      *incoming
	id      uint64
	view    uint64 // the caller's
	began   int64
	req     request
	ctx     context.Context
	cancel  context.CancelFunc
	told    bool // that it is loading
	partial assembly
	reply   reply
	kind    cache.Kind // to settle; KindNone: nothing
	passed  bool       // the answer is another node's
}

func newIncoming(p *Peers, h *hello, conn net.Conn, r *bufio.Reader) *incoming {
	in := &incoming{
		p: p, id: h.id, incarnation: h.incarnation, maxValue: int(min(h.maxValue, uint64(p.maxValue))),
		reader: newFrameReader(r), w: newWriter(conn, p.stamp),
		partial: map[uint64]*served{}, calls: map[uint64]*served{},
	}
	in.heard.Store(p.clock())
	return in
}

// run serves the link until it ends.
func (in *incoming) run(ctx context.Context) {
	p := in.p
	in.ctx, in.cancel = context.WithCancel(ctx)
	defer in.cancel()
	if excess := p.addLink(in); excess != nil {
		excess.w.close(errLinkClosed)
	}
	var writing sync.WaitGroup
	writing.Go(in.w.run)
	err := in.read()
	if brokenFrames(err) {
		p.brokenFrames.Add(1)
		p.log.Warn("peer broke the protocol", slog.String("peer", in.id), slog.Any("error", err))
	}
	in.cancel()
	in.w.close(errLinkClosed)
	in.workers.Wait()
	writing.Wait()
	p.removeLink(in)
}

func (in *incoming) read() error {
	for {
		h, err := in.reader.header()
		if err != nil {
			return err
		}
		in.heard.Store(in.p.clock())
		if h.incarnation != in.incarnation {
			return errBadFrame
		}
		switch h.typ {
		case frameCall:
			err = in.reader.body(h, func(b []byte) error { return in.called(h, b) })
		case frameChunk:
			err = in.chunk(h)
		case frameCancel:
			in.mu.Lock()
			if s := in.calls[h.id]; s != nil {
				s.cancel()
			}
			in.mu.Unlock()
		case framePing:
			err = in.reader.body(h, in.pinged)
		default:
			return errBadFrame
		}
		if err != nil {
			return err
		}
	}
}

func (in *incoming) pinged(b []byte) error {
	d := decoder{b: b}
	sent := d.uint64()
	settled, hears := in.p.settledWith(in.id, in.incarnation), in.p.hears()
	in.w.urgent(framePong, func(b []byte) []byte { return appendPong(b, sent, settled, hears) })
	return d.end()
}

func (in *incoming) called(h header, b []byte) error {
	req, total, err := parseRequest(b, in.p.maxValue)
	if err != nil {
		return err
	}
	s := &served{in: in, id: h.id, view: h.view, req: req}
	if err := in.begin(s); err != nil {
		return err
	}
	if total <= chunkLen {
		in.workers.Go(s.answer)
		return nil
	}
	if in.partialBytes+total > maxPartial {
		s.reply.err = cache.ErrOverloaded.With("too many big values at once")
		in.workers.Go(s.send)
		return nil
	}
	in.partialBytes += total
	s.partial.total = total
	in.partial[s.id] = s
	return nil
}

// begin registers a call, with its deadline.
func (in *incoming) begin(s *served) error {
	if s.req.remaining > 0 {
		s.ctx, s.cancel = context.WithTimeout(in.ctx, s.req.remaining)
	} else {
		s.ctx, s.cancel = context.WithCancel(in.ctx)
	}
	s.began = in.p.clock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.calls[s.id] != nil || len(in.calls) >= maxCalls {
		s.cancel()
		return errBadFrame
	}
	in.calls[s.id] = s
	return nil
}

// chunk takes the next part of a put's value. Chunks of a put that has been
// answered already are read and forgotten.
func (in *incoming) chunk(h header) error {
	s := in.partial[h.id]
	if s == nil {
		_, err := in.reader.r.Discard(h.body)
		return err
	}
	if err := s.partial.read(in.reader.r, h.body); err != nil {
		return err
	}
	if s.partial.missing() == 0 {
		delete(in.partial, s.id)
		in.partialBytes -= s.partial.total
		s.req.Value, s.partial.value = s.partial.value, nil
		in.workers.Go(s.answer)
	}
	return nil
}

// watch tells callers whose calls take long, and ends a link from a node that
// sends nothing any more.
func (in *incoming) watch(now int64) {
	if time.Duration(now-in.heard.Load()) > closeIncomingAfter {
		in.w.close(errSilent)
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for id, s := range in.calls {
		if !s.told && time.Duration(now-s.began) >= loadingAfter {
			s.told = true
			in.w.order(frameLoading, id)
		}
	}
}

// answer answers a call, on a goroutine of its own.
func (s *served) answer() {
	defer s.cancel()
	s.act()
	s.send()
}

// act does what the call asks for, or has it done by who should.
func (s *served) act() {
	p, key := s.in.p, s.req.Key
	defer func() {
		if cause := recover(); cause != nil {
			p.log.Error("panic while a peer's call was served", slog.String("peer", s.in.id), slog.Any("panic", cause))
			s.reply, s.kind = reply{err: cache.ErrInternal}, cache.KindNone
		}
	}()
	switch s.req.Op {
	case opPurge:
		p.handler.DropGroup(key.Group)
		return
	case opCopy:
		if c, ok := p.handler.Copy(key); ok {
			s.reply.copy = &c
		}
		return
	}
	v := p.view.Load()
	acting, _ := v.acting(key.Key, nil)
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
		err = cache.ErrOriginTimeout
	}
	if code, _ := errorCode(err); code == cache.ErrInternal.Code && !s.reply.cancelled {
		s.in.p.log.Error("peer's call failed", slog.String("peer", s.in.id), slog.Any("error", err))
	}
	s.reply.err = err
	s.reply.answer.Entry = nil
}

// send queues the final answer; written is called when it is out, or never will be.
func (s *served) send() {
	s.in.mu.Lock()
	delete(s.in.calls, s.id) // before the caller can know, and use the slot again
	s.in.mu.Unlock()
	if len(s.reply.value()) > s.in.maxValue {
		s.fail(cache.ErrOriginBadAnswer.With("larger than the link to the node that asked can take"))
	}
	err := s.in.w.send(s.in.ctx, s, nil)
	if errors.Is(err, errFrameSize) {
		s.fail(cache.ErrOriginBadAnswer.With("headers too large"))
		err = s.in.w.send(s.in.ctx, s, nil)
	}
	if err != nil {
		s.written(false)
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
	if s.reply.counted && s.req.Op == cache.OpGet {
		if ok {
			s.in.settled.Add(1)
		}
		if !ok && s.passed {
			s.in.p.abandoned.Add(-1) // the node that served it has counted it, and who asked will not know
		}
	}
	if s.kind != cache.KindNone {
		s.in.p.handler.Settle(s.kind, ok)
	}
}
