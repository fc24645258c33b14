package link

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// Peer is the other node of an Outgoing link, as the node that calls it knows it.
type Peer interface {
	// Called reports whether calls to the node are made at all now. The channel is
	// closed when that may have changed.
	Called() (called bool, changed <-chan struct{})
	// Pong takes what a pong says after the time at which its ping was sent.
	Pong(sent int64, says []byte) error
	// Silent is called when the link has been silent for too long: see Watch.
	Silent()
}

// Outgoing is the end of a link that makes calls.
type Outgoing struct {
	// RTT has the round trips of pings. Peer.Pong adds those that say something of
	// the link.
	RTT Recent

	node        *Node
	peer        Peer
	conn        net.Conn
	reader      frameReader
	w           *writer
	incarnation uint64        // of the other node
	freesSlots  bool          // a call that waits has no slot there
	slots       chan struct{} // a token for each call without a final answer that has a slot
	heard       atomic.Int64  // Node.Clock of the last frame
	silence     silence

	// mu guards all below. No method of a Caller is called under it.
	mu      sync.Mutex
	calls   map[uint64]*Call
	last    uint64 // id of the newest call
	waiting int    // calls that somebody waits for
	busy    int64  // Node.Clock when waiting rose from 0
	ended   bool
}

// NewOutgoing makes the end of a link whose handshake Greet has made. Its Run must
// be called.
func NewOutgoing(n *Node, c *Claim, conn net.Conn, r *bufio.Reader, peer Peer) *Outgoing {
	l := &Outgoing{
		node: n, peer: peer, conn: conn, reader: newFrameReader(r), w: newWriter(conn, n.stamp),
		incarnation: c.Incarnation, freesSlots: n.freesSlots(c),
		slots: make(chan struct{}, min(max(1, c.MaxCalls), maxCalls)), calls: map[uint64]*Call{},
	}
	l.heard.Store(n.Clock())
	return l
}

// Run reads and writes until the link ends, and says why it has ended. All calls have
// ended then. ErrBadFrame: the other node has broken the protocol.
func (l *Outgoing) Run() error {
	var writing sync.WaitGroup
	writing.Go(l.w.run)
	err := l.read()
	l.w.close(ErrClosed)
	writing.Wait()

	l.mu.Lock()
	l.ended = true
	left := l.calls
	l.calls = map[uint64]*Call{}
	for _, c := range left {
		if !c.waits {
			<-l.slots
		}
	}
	failed := l.failLocked(left, ErrClosed)
	l.mu.Unlock()
	for _, c := range failed {
		c.caller.Failed(ErrClosed)
	}
	for _, c := range left {
		c.caller.Discard()
	}
	return err
}

func (l *Outgoing) read() error {
	for {
		h, err := l.reader.header()
		if err != nil {
			return err
		}
		l.heard.Store(l.node.Clock())
		take := kinds[h.typ].outgoing
		if h.incarnation != l.incarnation || take == nil {
			return ErrBadFrame
		}
		if err := take(l, h); err != nil {
			return err
		}
	}
}

// Close ends the link: Run returns.
func (l *Outgoing) Close() { l.w.close(ErrClosed) }

// Ended reports whether the link is of no use any more. Run may still be at work.
func (l *Outgoing) Ended() bool { return l.w.ended.Load() }

// Heard is Node.Clock of the last frame.
func (l *Outgoing) Heard() int64 { return l.heard.Load() }

// InFlight is how many calls have no final answer yet.
func (l *Outgoing) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// Fail leaves all calls with err: see Call.Leave. Their answers may come yet.
func (l *Outgoing) Fail(err error) {
	l.mu.Lock()
	failed := l.failLocked(l.calls, err)
	l.mu.Unlock()
	for _, c := range failed {
		c.caller.Failed(err)
	}
}

func (l *Outgoing) failLocked(calls map[uint64]*Call, err error) (failed []*Call) {
	for _, c := range calls {
		if !c.left {
			l.leaveLocked(c, err)
			failed = append(failed, c)
		}
	}
	return failed
}

// Begin sends a call, which ends later: see Call.Done. If it cannot, the error is
// ErrSilent, ErrClosed, ErrCrowded or ErrFrameSize, ctx's if ctx was cancelled, or
// that with which the call was left meanwhile.
func (l *Outgoing) Begin(ctx context.Context, caller Caller) error {
	select {
	case l.slots <- struct{}{}:
	default:
		if err := l.queue(ctx); err != nil {
			return err
		}
	}
	c := caller.call()
	c.link, c.caller, c.done = l, caller, make(chan struct{})
	if err := l.register(c); err != nil {
		return err
	}
	err := l.w.send(ctx, c, c.done)
	if err == nil {
		return nil
	}
	l.finish(c)
	switch {
	case errors.Is(err, ErrFrameSize):
		return err
	case errors.Is(err, errStopped):
		return c.err
	case ctx.Err() != nil:
		return crowded(ctx)
	}
	return ErrClosed // a socket's error would say nothing to the caller
}

// queue waits for a slot until ctx ends or the node is no longer called.
func (l *Outgoing) queue(ctx context.Context) error {
	for {
		called, changed := l.peer.Called()
		if !called {
			return ErrSilent
		}
		select {
		case l.slots <- struct{}{}:
			return nil
		case <-changed:
		case <-ctx.Done():
			return crowded(ctx)
		}
	}
}

// crowded is the error of a call whose time ran out in a queue.
func crowded(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return ErrCrowded
}

func (l *Outgoing) register(c *Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		<-l.slots
		return ErrClosed
	}
	l.last++
	c.id = l.last
	l.calls[c.id] = c
	if l.waiting == 0 {
		l.busy = l.node.Clock()
	}
	l.waiting++
	return nil
}

// find returns the call with an id, or nil, and whether somebody waits for it.
func (l *Outgoing) find(id uint64) (c *Call, waited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c = l.calls[id]
	return c, c != nil && !c.left
}

// finish takes a call off the link, and says whether somebody waits for it.
func (l *Outgoing) finish(c *Call) (waited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] != c {
		return false
	}
	delete(l.calls, c.id)
	if !c.waits {
		<-l.slots
	}
	if !c.left {
		l.waiting--
	}
	return !c.left
}

func (l *Outgoing) answered(h header) error {
	c, _ := l.find(h.id)
	if c == nil || c.arriving.total != 0 {
		return ErrBadFrame
	}
	total := 0
	err := l.reader.body(h, func(b []byte) (err error) {
		total, err = c.caller.Head(b)
		return err
	})
	if err != nil {
		return err
	}
	if c.arriving.total = total; total == 0 {
		l.final(c)
	}
	return nil
}

func (l *Outgoing) chunk(h header) error {
	c, waited := l.find(h.id)
	if c == nil || c.arriving.total == 0 {
		return ErrBadFrame
	}
	take := c.arriving.read
	if !waited {
		c.caller.Discard()
		take = c.arriving.skip
	}
	if err := take(l.reader.r, h.body); err != nil {
		return err
	}
	if c.arriving.missing() == 0 {
		l.final(c)
	}
	return nil
}

// final hands a complete answer to the caller.
func (l *Outgoing) final(c *Call) {
	waited := l.finish(c)
	c.caller.Answered(c.arriving.value, waited)
	if waited {
		close(c.done)
	}
}
