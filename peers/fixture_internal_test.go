package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"kring/cache"
	"kring/link"
	"kring/membership"
	"kring/peers/memnet"
)

// idle is a Handler that has nothing stored. Its calls wait.
type idle struct{}

func (idle) Stored(in *Inbound, reply *Reply) bool {
	reply.Many = make([]cache.Answer, len(in.Keys))
	return in.Op == OpGetMany
}

func (idle) Answer(ctx context.Context, _ *Inbound) Reply {
	<-ctx.Done()
	return Reply{Err: ctx.Err()}
}

func (idle) Delivered(cache.Kind, bool) {}

// getOf is a get that a node makes of another.
func getOf(key string) *Request {
	return &Request{Request: cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "g", Key: key}}, Hop: 1}
}

// pair makes the two members of a cluster, neither of them started.
func pair(t testing.TB, n *memnet.Network) (good, bad *Peers) {
	t.Helper()
	var made []*Peers
	for i := range 2 {
		o := Options{Self: membership.Member{ID: fmt.Sprint("n", i)}, Config: membership.DefaultConfig(), Dial: n.Dialer(fmt.Sprintf("n%d:1", i)), MaxFrameValue: 1 << 20}
		o.Config.Peers = []string{"n0=http://n0:1", "n1=http://n1:1"}
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, p)
	}
	return made[0], made[1]
}

// serve starts a node with a listener; the test's end closes both.
func serve(t testing.TB, n *memnet.Network, host string, h http.Handler) {
	t.Helper()
	l, err := n.Listen(host)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { server.Close(); serving.Wait() })
}

// anyCall is a call of any bytes, whose answer is thrown away.
type anyCall struct {
	link.Call
	body []byte
	bulk []byte
}

func (c *anyCall) AppendCall(b []byte) []byte { return append(b, c.body...) }
func (c *anyCall) Bulk() []byte               { return c.bulk }
func (c *anyCall) Progress([]byte) error      { return nil }
func (c *anyCall) Head([]byte) (int, error)   { return 0, nil }
func (c *anyCall) Answered([]byte, bool)      {}
func (c *anyCall) Discard()                   {}
func (c *anyCall) Failed(error)               {}

// anyPeer is the other end of a link that nobody watches.
type anyPeer struct{}

func (anyPeer) Called() (bool, <-chan struct{}) { return true, nil }
func (anyPeer) Pong(int64, []byte) error        { return nil }
func (anyPeer) Silent()                         {}

// dialled makes a link of a node that was not started to n0. The test's end closes it.
func dialled(t *testing.T, n *memnet.Network, from *Peers) *link.Outgoing {
	t.Helper()
	conn, err := n.Dialer("n1:1")(t.Context(), "n0:1")
	if err != nil {
		t.Fatal(err)
	}
	c, r, err := from.node.Greet(conn, "n0:1", "n0")
	if err != nil {
		t.Fatal(err)
	}
	l := link.NewOutgoing(&from.node, c, conn, r, anyPeer{})
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run() })
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l
}

// byHand has a member that was not started take links. A function answers each call:
// with a body, or later.
func byHand(t *testing.T, n *memnet.Network, host string, p *Peers, hand hand) {
	t.Helper()
	serve(t, n, host, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		c, err := p.node.Welcome(conn, rw.Reader, func(*link.Claim) error { return nil })
		if err != nil {
			return // the node is stopping
		}
		_ = link.NewIncoming(&p.node, c, conn, rw.Reader, hand).Run(context.Background())
	}))
}

// hand answers calls and pings with any bytes.
type hand struct {
	pong   func() []byte
	answer func(call *anyAnswer) // nil: calls wait
}

func (h hand) AppendPong(b []byte) []byte { return append(b, h.pong()...) }

func (h hand) Called(uint64, []byte) (link.Answerer, error) { return &anyAnswer{hand: h}, nil }

type anyAnswer struct {
	link.Inbound
	hand hand
	body []byte
}

func (a *anyAnswer) Answer(ctx context.Context, _ []byte) {
	if a.hand.answer == nil {
		<-ctx.Done()
		return
	}
	a.hand.answer(a)
}

func (a *anyAnswer) Refuse(error)                 {}
func (a *anyAnswer) AppendAnswer(b []byte) []byte { return append(b, a.body...) }
func (a *anyAnswer) BulkAnswer() []byte           { return nil }
func (a *anyAnswer) Written(bool)                 {}

// hears is a pong of a member that hears these.
func hears(members ...string) func() []byte {
	return func() []byte { return appendPong(nil, 0, members) }
}
