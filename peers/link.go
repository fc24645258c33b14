package peers

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"kring/cache"
)

// maxCalls is how many calls without a final answer one link may carry, besides
// those that are known to wait: see loading.go.
const maxCalls = 1024

// errSilent fails a call on a link that brought no frame for too long.
var errSilent = errors.New("silence")

// link is this node's own link to another member, for its calls.
type link struct {
	pe          *peer
	conn        net.Conn
	reader      frameReader
	w           *writer
	incarnation uint64 // theirs
	maxValue    int    // they take no longer one
	freesSlots  bool   // a call that waits has no slot there

	slots chan struct{} // a token for each call without a final answer that has a slot
	rtt   recent        // of pings

	heard        atomic.Int64  // Peers.clock of the last frame
	counted      atomic.Uint64 // counted answers to gets that came
	hearsUs      atomic.Bool   // what the last pong said
	answeredPing atomic.Bool   // a pong came since the monitor looked

	// mu guards all below.
	mu      sync.Mutex
	calls   map[uint64]*call
	last    uint64 // id of the newest call
	waiting int    // calls that somebody waits for
	busy    int64  // Peers.clock when waiting rose from 0
	err     error

	// Of the monitor alone:
	nextPing, lastPing int64
	quiet              time.Duration // that counts as silence
	asked              int64         // when the oldest unanswered ping was sent; 0: none
	unanswered         int           // pings since then that count: see minUnanswered
	lastCounted        int64         // when the newest of them was sent
}

// call is one request on a link, until its final answer or the link's end.
type call struct {
	l       *link
	id      uint64
	req     *Request
	done    chan struct{} // closed when reply or err is there
	reply   Reply
	taken   *Reply // another call's, in place of reply: see sharing
	err     error
	partial assembly
	charged bool // the answer's value has its room; see Room

	// Guarded by link.mu:
	left    bool    // nobody waits for its answer
	waits   bool    // for a load, or whatever else: it has no slot
	shared  *shared // with whom it waits for its load; nil: it is not told of one
	ownLeft bool    // its own get has left, and others wait for its answer
}

func (c *call) requestID() uint64 { return c.id }
func (c *call) written(bool)      {} // the reader sees a link's end, too

func (c *call) appendTo(b []byte) []byte {
	start := len(b)
	b = c.l.w.stamp(b, frameCall, c.id)
	return endFrame(appendRequest(b, c.req), start, 0)
}

func (c *call) bulk() []byte {
	if c.req.Op == cache.OpPut && len(c.req.Value) > chunkLen {
		return c.req.Value
	}
	return nil
}

// call makes one call and waits for its final answer. Without one it returns
// errSilent, or an error that is errLinkClosed, or ctx's.
func (l *link) call(ctx context.Context, req *Request) (Reply, error) {
	c, err := l.begin(ctx, req)
	if err != nil {
		return Reply{}, err
	}
	return l.wait(ctx, c)
}

// begin sends a call, which wait must follow.
func (l *link) begin(ctx context.Context, req *Request) (*call, error) {
	if len(req.Value) > l.maxValue {
		return nil, cache.ErrValueTooLarge
	}
	select {
	case l.slots <- struct{}{}:
	default:
		if err := l.queue(ctx); err != nil {
			return nil, err
		}
	}
	c := &call{l: l, req: req, done: make(chan struct{})}
	if err := l.register(c); err != nil {
		return nil, err
	}
	if err := l.w.send(ctx, c, c.done); err != nil {
		l.finish(c)
		switch {
		case errors.Is(err, errFrameSize):
			return nil, cache.ErrKeyTooLong.Because(err)
		case errors.Is(err, errStopped):
			return nil, c.err
		case ctx.Err() != nil:
			return nil, crowded(ctx)
		}
		return nil, err
	}
	return c, nil
}

// wait waits for a call's final answer.
func (l *link) wait(ctx context.Context, c *call) (Reply, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		if l.leave(c, ctx.Err()) {
			return Reply{}, ctx.Err()
		}
	}
	if c.err != nil {
		l.w.order(frameCancel, c.id) // behind the call, and before it is made elsewhere
		return Reply{}, c.err        // the reader may be writing to c.reply
	}
	if c.taken != nil {
		return *c.taken, nil
	}
	l.keepCharged(ctx, c)
	return c.reply, nil
}

// queue waits for a slot until ctx ends or the member is no longer called.
func (l *link) queue(ctx context.Context) error {
	for {
		open, changed := l.pe.state()
		if open {
			return errSilent
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
	return cache.ErrOverloaded.Because(errors.New("too much on the link to the owner"))
}

func (l *link) register(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		<-l.slots
		return l.err
	}
	l.last++
	c.id = l.last
	l.calls[c.id] = c
	if l.waiting == 0 {
		l.busy = l.pe.p.clock()
	}
	l.waiting++
	return nil
}

// leave ends the waiting for a call, whose final answer still counts when it
// comes. If that came first, it stands. True: the call is not to be cancelled,
// others wait for it, or it was cancelled already.
func (l *link) leave(c *call, err error) (done bool) {
	l.mu.Lock()
	switch {
	case c.shared != nil && c.shared.call != c:
		l.mu.Unlock()
		left, unwanted := l.pe.p.sharing.leave(c)
		if unwanted != nil {
			unwanted.l.drop(unwanted)
		}
		if left {
			return true
		}
	case l.calls[c.id] != c || c.left:
		l.mu.Unlock()
	case c.shared != nil && l.pe.p.sharing.goesOn(c.shared):
		c.ownLeft = true
		l.mu.Unlock()
		return true
	default:
		l.leaveLocked(c, err)
		l.mu.Unlock()
	}
	<-c.done // if not closed here, somebody has, or is just about to
	return false
}

func (l *link) leaveLocked(c *call, err error) {
	c.left, c.err = true, err
	l.waiting--
	if c.shared != nil {
		l.pe.p.sharing.end(c.shared, Reply{}, err)
	}
	close(c.done)
}

// drop cancels a call that nobody waits for any more.
func (l *link) drop(c *call) {
	l.mu.Lock()
	dropped := l.calls[c.id] == c && !c.left
	if dropped {
		l.leaveLocked(c, context.Canceled)
	}
	l.mu.Unlock()
	if dropped {
		l.w.order(frameCancel, c.id)
	}
}

// silent fails all calls: the member is taken for hung. Their answers may come
// yet, and settle the books.
func (l *link) silent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if !c.left {
			l.leaveLocked(c, errSilent)
		}
	}
}

// find returns the call with an id, or nil, and whether somebody waits for it.
func (l *link) find(id uint64) (c *call, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c = l.calls[id]
	return c, c != nil && !c.left
}

// finish takes a call off the link. It says whether somebody waits for it, and
// whether its own get does.
func (l *link) finish(c *call) (wanted, own bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] != c {
		return false, false
	}
	delete(l.calls, c.id)
	if !c.waits {
		<-l.slots
	}
	if !c.left {
		l.waiting--
	}
	return !c.left, !c.left && !c.ownLeft
}
