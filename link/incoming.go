package link

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// maxPartial bounds values that are arriving in chunks on one link. A call with a
// value beyond it is refused with ErrCrowded.
const maxPartial = 64 << 20

// Handler takes the calls of an Incoming link. The reader calls it.
type Handler interface {
	// Called takes the body of a call, and the number of the caller's view. An error
	// breaks the link.
	Called(view uint64, body []byte) (Answerer, error)
	// AppendPong appends what a pong says after the time of its ping.
	AppendPong(b []byte) []byte
}

// Incoming is the end of a link that answers calls.
type Incoming struct {
	node        *Node
	handler     Handler
	incarnation uint64 // of the other node
	freesSlots  bool   // the other node's calls that wait have no slot there
	reader      frameReader
	w           *writer
	heard       atomic.Int64 // Node.Clock of the last frame

	ctx     context.Context // ends with the link
	workers sync.WaitGroup

	// Of the reader alone:
	partial      map[uint64]*Inbound // calls whose value arrives
	partialBytes int
	refused      map[uint64]int // bytes to come of calls for whose values there was no room
	taken        int64          // bytes of whole frames so far
	deferred     []deferred

	mu    sync.Mutex          // guards all below
	calls map[uint64]*Inbound // those without a final answer
	waits map[uint64]*Inbound // the same, but the caller knows that they wait
}

// NewIncoming makes the end of a link whose handshake Welcome has made. Its Run must
// be called.
func NewIncoming(n *Node, c *Claim, conn net.Conn, r *bufio.Reader, h Handler) *Incoming {
	in := &Incoming{
		node: n, handler: h, incarnation: c.Incarnation, freesSlots: n.freesSlots(c),
		reader: newFrameReader(r), w: newWriter(conn, n.stamp),
		partial: map[uint64]*Inbound{}, refused: map[uint64]int{}, calls: map[uint64]*Inbound{}, waits: map[uint64]*Inbound{},
	}
	in.heard.Store(n.Clock())
	return in
}

// Run answers calls until the link ends, and says why it has ended. No call is worked
// on then. ErrBadFrame: the other node has broken the protocol.
func (in *Incoming) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in.ctx = ctx
	var writing sync.WaitGroup
	writing.Go(in.w.run)
	err := in.read()
	cancel()
	in.w.close(ErrClosed)
	in.workers.Wait()
	writing.Wait()
	return err
}

// Close ends the link: Run returns.
func (in *Incoming) Close() { in.w.close(ErrClosed) }

func (in *Incoming) read() error {
	for {
		in.release()
		h, err := in.reader.header()
		if err != nil {
			return err
		}
		in.heard.Store(in.node.Clock())
		take := kinds[h.typ].incoming
		if h.incarnation != in.incarnation || take == nil {
			return ErrBadFrame
		}
		if err := take(in, h); err != nil {
			return err
		}
		in.taken += int64(headerLen + h.body)
	}
}

func (in *Incoming) called(h header) error {
	return in.reader.body(h, func(body []byte) error {
		a, err := in.handler.Called(h.view, body)
		if err != nil {
			return err
		}
		c := a.inbound()
		c.in, c.id, c.answerer = in, h.id, a
		if c.Answered && in.w.trySend(c) {
			return nil
		}
		if err := in.begin(c); err != nil {
			if c.Answered {
				a.Written(false)
			}
			return err
		}
		return in.gather(c)
	})
}

// begin registers a call, with its deadline.
func (in *Incoming) begin(c *Inbound) error {
	if c.Timeout > 0 {
		c.ctx, c.cancel = context.WithTimeout(in.ctx, c.Timeout)
	} else {
		c.ctx, c.cancel = context.WithCancel(in.ctx)
	}
	c.began = in.node.Clock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.calls[c.id] != nil || in.waits[c.id] != nil || in.refused[c.id] > 0 || len(in.calls) >= maxCalls {
		c.cancel()
		return ErrBadFrame
	}
	in.calls[c.id] = c
	return nil
}

// gather waits for the value of a call, if it has one, and then has it answered.
func (in *Incoming) gather(c *Inbound) error {
	if c.Bulk == 0 {
		in.start(c)
		return nil
	}
	if in.partialBytes+c.Bulk > maxPartial {
		if in.refused[c.id] = c.Bulk; len(in.refused) > maxCalls {
			c.cancel()
			return ErrBadFrame // no node begins so many values before it ends one
		}
		c.answerer.Refuse(ErrCrowded)
		in.workers.Go(func() {
			defer c.cancel()
			c.send()
		})
		return nil
	}
	in.partialBytes += c.Bulk
	c.arriving.total = c.Bulk
	in.partial[c.id] = c
	return nil
}

// chunk takes the next part of a call's value. If the call was refused for want of
// room, the part is read and forgotten.
func (in *Incoming) chunk(h header) error {
	c := in.partial[h.id]
	if c == nil {
		missing := in.refused[h.id]
		if h.body > missing {
			return ErrBadFrame
		}
		if in.refused[h.id] = missing - h.body; missing == h.body {
			delete(in.refused, h.id)
		}
		_, err := in.reader.r.Discard(h.body)
		return err
	}
	if err := c.arriving.read(in.reader.r, h.body); err != nil {
		return err
	}
	if c.arriving.missing() == 0 {
		delete(in.partial, c.id)
		in.partialBytes -= c.Bulk
		in.start(c)
	}
	return nil
}

func (in *Incoming) cancelled(h header) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, calls := range []map[uint64]*Inbound{in.calls, in.waits} {
		if c := calls[h.id]; c != nil {
			c.cancel()
		}
	}
	return nil
}
