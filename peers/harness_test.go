package peers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kring/cache"
	"kring/internal/testlog"
	"kring/membership"
	"kring/peers"
	"kring/peers/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// members are the nodes of a cluster, on a network in memory.
type members struct {
	t     *testing.T
	net   *memnet.Network
	list  []string
	nodes []*node
}

// node is one of them. Functions answer the calls of the others.
type node struct {
	*peers.Peers
	id, host string
	c        *members
	server   *http.Server
	serving  sync.WaitGroup
	log      *testlog.Buffer

	mu        sync.Mutex // guards all below
	serve     func(ctx context.Context, req *cache.Request) (cache.Answer, error)
	stored    func(key string) (cache.Answer, bool)
	served    map[string]int // keys that serve was called with
	delivered int            // gets of others whose answers were delivered
	lost      int            // those whose answers were not
	peer      int            // this node's gets at another one
}

func host(i int) string { return fmt.Sprintf("n%d:1", i) }

// start makes n nodes and waits until they are ready and their links are
// established: with a new one they have more patience.
func start(t *testing.T, n int, tune ...func(i int, o *peers.Options)) *members {
	t.Helper()
	c := build(t, n, tune...)
	for _, n := range c.nodes {
		n.run()
	}
	c.awaitReady()
	<-time.After(time.Second)
	return c
}

func build(t *testing.T, n int, tune ...func(i int, o *peers.Options)) *members {
	t.Helper()
	c := &members{t: t, net: memnet.New()}
	for i := range n {
		c.list = append(c.list, fmt.Sprintf("n%d=http://%s", i, host(i)))
	}
	for i := range n {
		c.nodes = append(c.nodes, c.node(i, tune...))
	}
	return c
}

func (c *members) node(i int, tune ...func(i int, o *peers.Options)) *node {
	c.t.Helper()
	n := &node{id: fmt.Sprintf("n%d", i), host: host(i), c: c, served: map[string]int{}, log: &testlog.Buffer{}}
	n.serve = func(_ context.Context, req *cache.Request) (cache.Answer, error) {
		return cache.Answer{Kind: cache.KindLoad, Node: n.id, Status: 200, Entry: &cache.Entry{Value: []byte(req.Key.Key)}}, nil
	}
	o := peers.Options{
		Self: membership.Member{ID: n.id}, Config: membership.DefaultConfig(), Dial: c.net.Dialer(n.host),
		Log: slog.New(slog.NewTextHandler(n.log, nil)),
	}
	o.Config.Peers = c.list
	for _, f := range tune {
		f(i, &o)
	}
	p, err := peers.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	n.Peers = p
	return n
}

// run starts a node and its listener; the test's end closes both.
func (n *node) run() {
	n.c.t.Helper()
	l, err := n.c.net.Listen(n.host)
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.server = &http.Server{Handler: n.Peers, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	n.Start(n)
	n.serving.Go(func() {
		if err := n.server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			n.c.t.Error("serve:", err)
		}
	})
	n.c.t.Cleanup(n.stop)
}

func (n *node) stop() {
	n.server.Close()
	n.Close()
	n.serving.Wait()
}

// kill ends a node as kill -9 would: its connections break at once.
func (n *node) kill() {
	n.c.net.Kill(n.host)
	n.stop()
}

// pause holds all that a node sends and receives, as kill -STOP would.
func (n *node) pause() { n.hold(n.c.net.Hold) }

func (n *node) resume() { n.hold(n.c.net.Release) }

func (n *node) hold(do func(from, to string)) {
	for _, o := range n.c.nodes {
		if o != n {
			do(n.host, o.host)
			do(o.host, n.host)
		}
	}
}

func (c *members) awaitReady() {
	c.t.Helper()
	for _, n := range c.nodes {
		await(c.t, n.id+" ready", func() bool { ok, _ := n.Ready(); return ok })
	}
}

// await polls until a condition holds; 20 s (of the bubble's time) is for ever.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// Answer answers a call as serve does.
func (n *node) Answer(ctx context.Context, in *peers.Inbound) peers.Reply {
	n.mu.Lock()
	n.served[in.Key.Key]++
	serve := n.serve
	n.mu.Unlock()
	a, err := serve(ctx, &in.Request.Request)
	return peers.Reply{Answer: a, Err: err, Counted: in.Op == cache.OpGet && a.Kind != cache.KindNone}
}

// Stored answers gets as stored does; none unless a test says otherwise.
func (n *node) Stored(in *peers.Inbound, reply *peers.Reply) bool {
	n.mu.Lock()
	stored := n.stored
	n.mu.Unlock()
	switch {
	case in.Op == peers.OpGetMany:
		reply.Answer.Node, reply.Many = n.id, make([]cache.Answer, len(in.Keys))
		for i, key := range in.Keys {
			if stored == nil {
				continue
			}
			if a, ok := stored(key); ok && in.Fits(a.Entry) {
				reply.Many[i] = a
			}
		}
		return true
	case in.Op == cache.OpGet && stored != nil:
		reply.Answer, reply.Counted = stored(in.Key.Key)
	}
	return reply.Counted
}

func (n *node) Delivered(_ cache.Kind, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ok {
		n.delivered++
	} else {
		n.lost++
	}
}

func (n *node) on(serve func(ctx context.Context, req *cache.Request) (cache.Answer, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serve = serve
}

func (n *node) times(key string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.served[key]
}

// get gets a key at another member, three times at most if the link breaks. It keeps
// the books of an entry node.
func (n *node) get(ctx context.Context, to int, key string) (cache.Answer, error) {
	var r peers.Reply
	var err error
	for range 3 {
		req := peers.Request{Request: cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "g", Key: key}}, Hop: 1}
		if r, err = n.Call(ctx, n.c.nodes[to].id, &req); !peers.NoAnswer(err) || ctx.Err() != nil {
			break
		}
	}
	if !r.Shared {
		n.mu.Lock()
		n.peer++
		n.mu.Unlock()
		if err != nil || !r.Counted {
			n.Abandon()
		}
	}
	if err == nil {
		err = r.Err
	}
	return r.Answer, err
}

// put puts a value at another member.
func (n *node) put(ctx context.Context, to int, value []byte) error {
	req := peers.Request{Request: cache.Request{Op: cache.OpPut, Key: cache.Key{Group: "g", Key: "k"}, Value: value, ID: 1}, Hop: 1}
	r, err := n.Call(ctx, n.c.nodes[to].id, &req)
	if err == nil {
		err = r.Err
	}
	return err
}

// getMany gets keys at another member by one call. Keys that it has not stored are left
// out.
func (n *node) getMany(ctx context.Context, to int, keys ...string) []cache.Answer {
	call, ok := n.Begin(ctx, n.c.nodes[to].id, &peers.Request{Request: cache.Request{Op: peers.OpGetMany, Key: cache.Key{Group: "g"}}, Hop: 1, Keys: keys})
	if !ok {
		return make([]cache.Answer, len(keys))
	}
	r, err := call.Wait(ctx)
	if err != nil {
		return make([]cache.Answer, len(keys))
	}
	for _, a := range r.Many {
		if a.Entry != nil {
			n.mu.Lock()
			n.peer++
			n.mu.Unlock()
		}
	}
	return r.Many
}

// checkBooks waits until Σpeer = Σdelivered + Σabandoned: soon after the last call
// has ended, on whichever side.
func (c *members) checkBooks() {
	c.t.Helper()
	sums := func() (peer, delivered, abandoned int) {
		for _, n := range c.nodes {
			n.mu.Lock()
			peer += n.peer
			delivered += n.delivered
			n.mu.Unlock()
			abandoned += int(n.Stats().Abandoned)
		}
		return peer, delivered, abandoned
	}
	balanced := func() bool { p, d, a := sums(); return p == d+a }
	await(c.t, "books", func() bool {
		inFlight := 0
		for _, n := range c.nodes {
			for _, p := range n.Stats().Peers {
				inFlight += p.InFlight
			}
		}
		return inFlight == 0 && balanced()
	})
	synctest.Wait()
	if p, d, a := sums(); p != d+a {
		c.t.Errorf("peer %d, delivered %d, abandoned %d", p, d, a)
	}
}
