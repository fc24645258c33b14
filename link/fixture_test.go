package link

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kring/peers/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thisNode and thatNode are the two nodes of a test's links.
func thisNode() *Node { return testNode("n0", 7) }
func thatNode() *Node { return testNode("n1", 8) }

func testNode(id string, incarnation uint64) *Node {
	start := time.Now()
	return &Node{
		ID: id, Cluster: "kring", Ring: "ring", Incarnation: incarnation, MaxValue: 1 << 20,
		View:  func() (number, id uint64) { return 1, 1 },
		Clock: func() int64 { return int64(time.Since(start)) },
		Check: func(*Claim) error { return nil },
	}
}

// connected is both ends of a connection in memory.
func connected(t testing.TB, n *memnet.Network) (dialled, accepted net.Conn) {
	t.Helper()
	l, err := n.Listen("n0:1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err = n.Dialer("n1:1")(t.Context(), "n0:1")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled, accepted
}

// greeted is what the two ends of a new link know of each other, and have to read.
type greeted struct {
	conn  net.Conn
	claim *Claim
	r     *bufio.Reader
	err   error
}

// shakeHands makes the handshake between a node that dialled and one that was dialled.
func shakeHands(dialled, accepted net.Conn, dialler, listener *Node, target string) (near, far greeted) {
	near.conn, far.conn = dialled, accepted
	var welcoming sync.WaitGroup
	welcoming.Go(func() {
		far.r = bufio.NewReader(accepted)
		if _, far.err = http.ReadRequest(far.r); far.err == nil {
			far.claim, far.err = listener.Welcome(accepted, far.r, func(*Claim) error { return nil })
		}
	})
	near.claim, near.r, near.err = dialler.Greet(dialled, "n0:1", target)
	welcoming.Wait()
	return near, far
}

// shaken is both ends of a new link.
func shaken(t testing.TB, n *memnet.Network, dialler, listener *Node) (near, far greeted) {
	t.Helper()
	dialled, accepted := connected(t, n)
	near, far = shakeHands(dialled, accepted, dialler, listener, listener.ID)
	if near.err != nil || far.err != nil {
		t.Fatal(near.err, far.err)
	}
	return near, far
}

// answering runs the end of a link that answers. The test has the other end in its
// hand, as n1. What Run returns is sent when the link has ended.
func answering(t testing.TB, n *memnet.Network, h Handler) (in *Incoming, conn net.Conn, r *bufio.Reader, ended <-chan error) {
	t.Helper()
	node := thisNode()
	near, far := shaken(t, n, thatNode(), node)
	in = NewIncoming(node, far.claim, far.conn, far.r, h)
	running := make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() { running <- in.Run(context.Background()) })
	t.Cleanup(func() { near.conn.Close(); run.Wait() })
	return in, near.conn, near.r, running
}

// calling runs the end of a link that calls. At the other end, each frame is answered
// with the frames that a function returns, as n0.
func calling(t testing.TB, n *memnet.Network, peer Peer, hand func(h header, body []byte) []byte) (l *Outgoing, ended <-chan error) {
	t.Helper()
	node := thatNode()
	near, far := shaken(t, n, node, thisNode())
	l = NewOutgoing(node, near.claim, near.conn, near.r, peer)
	running := make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() { running <- l.Run() })
	run.Go(func() {
		r := newFrameReader(far.r)
		for {
			h, err := r.header()
			if err != nil {
				return
			}
			body := make([]byte, h.body)
			if _, err := io.ReadFull(r.r, body); err != nil {
				return
			}
			if _, err := far.conn.Write(hand(h, body)); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { l.Close(); run.Wait() })
	return l, running
}

// friend is a Peer that is called.
type friend struct{ silent int }

func (*friend) Called() (bool, <-chan struct{}) { return true, nil }
func (*friend) Pong(int64, []byte) error        { return nil }
func (f *friend) Silent()                       { f.silent++ }

// errNonsense is what a letter that makes no sense breaks its link with.
var errNonsense = errors.Join(ErrBadFrame, errors.New("nonsense"))

// letter is a call whose body, value and answer are bytes.
type letter struct {
	Call
	body, value []byte

	told      [][]byte // in loading frames
	head      []byte   // of the answer
	bulk      []byte
	late      bool // nobody waited for the answer
	failed    error
	discarded int
}

func (l *letter) AppendCall(b []byte) []byte { return append(b, l.body...) }
func (l *letter) Bulk() []byte               { return l.value }
func (l *letter) Discard()                   { l.discarded++ }
func (l *letter) Failed(err error)           { l.failed = err }

func (l *letter) Progress(says []byte) error {
	l.told = append(l.told, bytes.Clone(says))
	return nil
}

// Head reads a length of the value that follows, and any bytes.
func (l *letter) Head(body []byte) (int, error) {
	d := Decoder{B: body}
	n := d.Length(1 << 20)
	l.head = bytes.Clone(d.B)
	return n, d.Err
}

func (l *letter) Answered(bulk []byte, waited bool) { l.bulk, l.late = bulk, !waited }

// wait waits for the answer as a caller does.
func (l *letter) wait(ctx context.Context) error {
	select {
	case <-l.Done():
	case <-ctx.Done():
		if l.Leave(ctx.Err()) {
			l.Cancel()
		}
		<-l.Done()
	}
	return l.Err()
}

// The first byte of a letter's body says what office makes of it.
const (
	askAtOnce  = 's' // it is answered by the reader
	askSoon    = 'g' // it is answered on a goroutine
	askNever   = 'w' // it is answered when its context has ended
	askChange  = 'c' // it changes something
	askHuge    = 'h' // its answer does not fit in a frame
	askValue   = 'v' // as askSoon, and a number says how long the answer's value is
	bringValue = 'p' // as askChange, and a number says how long the value is that follows
)

// office is a Handler of letters. It keeps books of what it answers.
type office struct {
	mu       sync.Mutex // guards all below
	running  int
	made     int // answers that were made
	written  int // times that it was told of their fate
	lost     int // those that did not go out
	refused  []error
	changes  []string
	longest  int           // value that it was brought
	changed  chan struct{} // closed when there are changes
	progress []*reply      // calls that wait
}

// reply is one call to an office.
type reply struct {
	Inbound
	o       *office
	body    []byte
	value   []byte
	tooLong bool
}

func (o *office) AppendPong(b []byte) []byte { return append(b, "pong"...) }

func (o *office) Called(_ uint64, body []byte) (Answerer, error) {
	r := &reply{o: o, body: bytes.Clone(body)}
	d := Decoder{B: r.body[1:]}
	switch body[0] {
	case askAtOnce:
		r.Answered = true
		o.count(func() { o.made++ })
	case askSoon, askNever:
	case askChange:
		r.Changes = true
	case askHuge:
		r.tooLong = true
	case askValue:
		r.value = make([]byte, d.Length(1<<20))
	case bringValue:
		r.Changes, r.Bulk = true, d.Length(1<<20)
		if r.Bulk <= ChunkLen {
			d.Fail("a small value")
		}
	default:
		return nil, errNonsense
	}
	return r, d.Err
}

func (o *office) count(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (r *reply) Answer(ctx context.Context, bulk []byte) {
	o := r.o
	o.count(func() {
		o.running++
		o.made++
		o.longest = max(o.longest, len(bulk))
		o.progress = append(o.progress, r)
	})
	defer o.count(func() { o.running-- })
	switch {
	case r.body[0] == askNever:
		<-ctx.Done()
	case r.Changes && ctx.Err() == nil:
		o.count(func() {
			o.changes = append(o.changes, string(r.body[1:]))
			if o.changed != nil {
				close(o.changed)
				o.changed = nil
			}
		})
	}
}

func (r *reply) Refuse(err error) {
	r.o.count(func() { r.o.refused = append(r.o.refused, err) })
	if r.tooLong = false; errors.Is(err, ErrCrowded) {
		r.o.count(func() { r.o.made++ })
	}
}

func (r *reply) AppendAnswer(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.BulkAnswer())))
	if r.tooLong {
		return append(b, make([]byte, MaxMeta+ChunkLen)...)
	}
	return append(b, r.body...)
}

func (r *reply) BulkAnswer() []byte {
	if len(r.value) > ChunkLen {
		return r.value
	}
	return nil
}

func (r *reply) Written(ok bool) {
	r.o.count(func() {
		if r.o.written++; !ok {
			r.o.lost++
		}
	})
}

// frameFrom is a frame of the node with an incarnation.
func frameFrom(incarnation uint64, typ frameType, id uint64, body ...byte) []byte {
	return endFrame(append(appendHeader(nil, typ, id, 1, incarnation), body...), 0, 0)
}

// theirs is a frame of n1, ours one of n0.
func theirs(typ frameType, id uint64, body ...byte) []byte { return frameFrom(8, typ, id, body...) }
func ours(typ frameType, id uint64, body ...byte) []byte   { return frameFrom(7, typ, id, body...) }

// bring is the body of a call with a value that follows.
func bring(n int) []byte { return binary.AppendUvarint([]byte{bringValue}, uint64(n)) }
