package peers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
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

// cluster is some nodes on a network in memory.
type cluster struct {
	t     *testing.T
	net   *memnet.Network
	list  []string
	nodes []*node
}

// node is one of them, with a cache that is a function.
type node struct {
	*peers.Peers
	id, host string
	c        *cluster
	server   *http.Server
	serving  sync.WaitGroup
	log      *testlog.Buffer

	mu      sync.Mutex // guards all below
	serve   func(ctx context.Context, req *cache.Request) (cache.Answer, error)
	stored  func(key string) (cache.Answer, bool)
	served  map[string]int // keys that Serve was called with
	settled int            // gets of others that count as served
	lost    int            // those whose answer was not delivered
	peer    int            // this node's gets that went through another
	dropped []string
	writes  []cache.Request

	keepsNothing bool // its loads leave no copy
}

func host(i int) string { return fmt.Sprintf("n%d:1", i) }

// start makes n nodes and waits until they are ready and their links are
// established: with a new one they have more patience.
func start(t *testing.T, n int, tune ...func(i int, o *peers.Options)) *cluster {
	t.Helper()
	c := build(t, n, tune...)
	for _, n := range c.nodes {
		n.run()
	}
	c.awaitReady()
	<-time.After(time.Second)
	return c
}

func build(t *testing.T, n int, tune ...func(i int, o *peers.Options)) *cluster {
	t.Helper()
	c := &cluster{t: t, net: memnet.New()}
	for i := range n {
		c.list = append(c.list, fmt.Sprintf("n%d=http://%s", i, host(i)))
	}
	for i := range n {
		c.nodes = append(c.nodes, c.node(i, tune...))
	}
	return c
}

func (c *cluster) node(i int, tune ...func(i int, o *peers.Options)) *node {
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

func (c *cluster) awaitReady() {
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

func (n *node) Serve(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	n.mu.Lock()
	n.served[req.Key.Key]++
	if req.Op != cache.OpGet {
		n.writes = append(n.writes, *req)
	}
	serve := n.serve
	n.mu.Unlock()
	return serve(ctx, req)
}

// ServeStored has what stored says; nothing unless a test says otherwise.
func (n *node) ServeStored(key cache.Key, _ bool, fits func(*cache.Entry) bool) (cache.Answer, bool) {
	n.mu.Lock()
	stored := n.stored
	n.mu.Unlock()
	if stored == nil {
		return cache.Answer{}, false
	}
	a, ok := stored(key.Key)
	if ok && fits != nil && !fits(a.Entry) {
		return cache.Answer{}, false
	}
	return a, ok
}

func (n *node) Settle(_ cache.Kind, delivered bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if delivered {
		n.settled++
	} else {
		n.lost++
	}
}

func (n *node) DropGroup(group string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropped = append(n.dropped, group)
}

func (n *node) DropTags(group string, tags []string) {
	n.DropGroup(group + " " + strings.Join(tags, " "))
}

func (n *node) Copy(key cache.Key) (cache.Copy, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.served[key.Key] == 0 {
		return cache.Copy{}, false
	}
	load := &cache.LastLoad{Endpoint: "a", At: time.Now(), Millis: 3}
	if n.keepsNothing {
		return cache.Copy{LastLoad: load}, false
	}
	return cache.Copy{Role: "primary", TTL: 5, LastLoad: load}, true
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

// get is what cache.Cache does with a client's get.
func (n *node) get(ctx context.Context, key string) (cache.Answer, error) {
	req := &cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "g", Key: key}}
	if _, self := n.Acts(key); !self {
		a, err := n.Forward(ctx, req)
		if !errors.Is(err, cache.ErrActHere) {
			n.mu.Lock()
			n.peer++
			n.mu.Unlock()
			return a, err
		}
	}
	return n.Serve(ctx, req)
}

// checkBooks waits until Σpeer = Σserved + Σabandoned: soon after the last call
// has ended, on whichever side.
func (c *cluster) checkBooks() {
	c.t.Helper()
	sums := func() (peer, served, abandoned int) {
		for _, n := range c.nodes {
			n.mu.Lock()
			peer += n.peer
			served += n.settled
			n.mu.Unlock()
			abandoned += int(n.Stats().Abandoned)
		}
		return peer, served, abandoned
	}
	balanced := func() bool { p, s, a := sums(); return p == s+a }
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
	if p, s, a := sums(); p != s+a {
		c.t.Errorf("peer %d, served %d, abandoned %d", p, s, a)
	}
}

// key finds a key whose first owners on the ring are the given nodes.
func (c *cluster) key(owners ...int) string {
	c.t.Helper()
	for i := range 10000 {
		key := fmt.Sprintf("key-%d", i)
		got := c.nodes[0].View().Ring.Owners(key, len(owners))
		match := true
		for j, o := range owners {
			match = match && got[j] == c.nodes[o].id
		}
		if match {
			return key
		}
	}
	c.t.Fatal("no such key")
	return ""
}
