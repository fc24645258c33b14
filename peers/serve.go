package peers

import (
	"bufio"
	"context"
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
	maxValue    int  // its longest
	freesSlots  bool // its calls that wait have no slot there
	reader      frameReader
	w           *writer
	heard       atomic.Int64
	settled     atomic.Uint64 // answers of gets, counted here, that were written

	ctx     context.Context // ends with the link
	cancel  context.CancelFunc
	workers sync.WaitGroup

	// Of the reader alone:
	partial      map[uint64]*served // puts whose value arrives
	partialBytes int
	refused      map[uint64]int // bytes to come of puts for which there was no room
	taken        int64          // bytes of whole frames so far
	held         []held

	mu    sync.Mutex         // guards all below
	calls map[uint64]*served // those without a final answer
	waits map[uint64]*served // likewise; their caller knows that they wait
}

func newIncoming(p *Peers, c *claim, conn net.Conn, r *bufio.Reader) *incoming {
	in := &incoming{
		p: p, id: c.id, incarnation: c.incarnation, maxValue: int(min(c.maxValue, uint64(p.maxValue))),
		reader: newFrameReader(r), w: newWriter(conn, p.stamp),
		partial: map[uint64]*served{}, refused: map[uint64]int{}, calls: map[uint64]*served{}, waits: map[uint64]*served{},
		freesSlots: p.freesSlots(c),
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
	in.cancel()
	in.w.close(errLinkClosed)
	in.workers.Wait()
	writing.Wait()
	p.removeLink(in)
	if brokenFrames(err) {
		p.brokenFrames.Add(1)
		p.tellBroken(in.id, err)
	}
}

func (in *incoming) read() error {
	for {
		in.release()
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
			for _, calls := range []map[uint64]*served{in.calls, in.waits} {
				if s := calls[h.id]; s != nil {
					s.cancel()
				}
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
		in.taken += int64(headerLen + h.body)
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
	s := &served{in: in, id: h.id, call: Inbound{From: in.id, View: h.view, Request: req, maxValue: in.maxValue, frame: maxMeta}}
	if s.stored() {
		if in.w.trySend(s) {
			return nil
		}
		s.ready = true // once there is room
	}
	if err := in.begin(s); err != nil {
		if s.ready {
			s.written(false)
		}
		return err
	}
	if total <= chunkLen {
		in.start(s)
		return nil
	}
	if in.partialBytes+total > maxPartial {
		if in.refused[s.id] = total; len(in.refused) > maxCalls {
			s.cancel()
			return errBadFrame // nobody begins so many values before the end of one
		}
		s.reply.Err = cache.ErrOverloaded.With("too many big values at once")
		in.workers.Go(func() {
			defer s.cancel()
			s.send()
		})
		return nil
	}
	in.partialBytes += total
	s.partial.total = total
	in.partial[s.id] = s
	return nil
}

// begin registers a call, with its deadline.
func (in *incoming) begin(s *served) error {
	ctx := in.ctx
	if s.call.requestID != "" {
		ctx = context.WithValue(ctx, cache.RequestIDKey{}, s.call.requestID)
	}
	if s.call.remaining > 0 {
		s.ctx, s.cancel = context.WithTimeout(ctx, s.call.remaining)
	} else {
		s.ctx, s.cancel = context.WithCancel(ctx)
	}
	s.call.Waiting = s
	s.began = in.p.clock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.calls[s.id] != nil || in.waits[s.id] != nil || in.refused[s.id] > 0 || len(in.calls) >= maxCalls {
		s.cancel()
		return errBadFrame
	}
	in.calls[s.id] = s
	return nil
}

// chunk takes the next part of a put's value. Those of a put for which there
// was no room, and which is answered already, are read and forgotten.
func (in *incoming) chunk(h header) error {
	s := in.partial[h.id]
	if s == nil {
		missing := in.refused[h.id]
		if h.body > missing {
			return errBadFrame
		}
		if in.refused[h.id] = missing - h.body; missing == h.body {
			delete(in.refused, h.id)
		}
		_, err := in.reader.r.Discard(h.body)
		return err
	}
	if err := s.partial.read(in.reader.r, h.body); err != nil {
		return err
	}
	if s.partial.missing() == 0 {
		delete(in.partial, s.id)
		in.partialBytes -= s.partial.total
		s.call.Value, s.partial.value = s.partial.value, nil
		in.start(s)
	}
	return nil
}

// watch tells callers whose calls take long, and ends a link from a node that
// sends nothing any more.
func (in *incoming) watch(now, doubtless int64) {
	if time.Duration(now-max(in.heard.Load(), doubtless)) > closeIncomingAfter {
		in.w.close(errSilent)
		return
	}
	var slow []uint64
	in.mu.Lock()
	for id, s := range in.calls {
		if time.Duration(now-s.began) >= loadingAfter && in.waitsLocked(s) {
			slow = append(slow, id)
		}
	}
	in.mu.Unlock()
	for _, id := range slow {
		in.w.order(frameLoading, id)
	}
}
