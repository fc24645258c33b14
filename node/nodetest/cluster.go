// Package nodetest runs a cluster of real nodes in one process, on free ports
// of 127.0.0.1, in front of an origin that counts its loads. After every test
// it checks that the books balance and that no goroutine was left behind.
package nodetest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kring/balance"
	"kring/cache"
	"kring/internal/testlog"
	"kring/node"
)

// Cluster is N nodes that know each other, and their origin.
type Cluster struct {
	Nodes  []*Node
	Origin *Origin

	t      testing.TB
	net    *network
	client *http.Client
	// lossy is set once a node's counters are gone with it: then only each
	// living node's own books can be checked.
	lossy bool
}

// Node is one node of a Cluster. Its embedded node changes at a Restart.
type Node struct {
	*node.Node
	ID  string
	URL string

	cluster *Cluster
	cfg     node.Config
	host    *host
	stop    context.CancelFunc
	done    chan error // the result of Run; nil once the node is gone
	log     *testlog.Buffer
}

// Start runs n nodes named kring-1… with a group docs in front of the origin
// (path /docs/{key}) and a plain group kv, and waits until all are ready.
// Each edit may change the configuration of node i (from 0) before it starts.
func Start(t testing.TB, n int, edits ...func(i int, cfg *node.Config)) *Cluster {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(before); err != nil {
			t.Errorf("goroutines left behind: %v", err)
		}
	})
	c := &Cluster{t: t, net: newNetwork(t), Origin: newOrigin(t)}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	c.client = &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(c.shutdown)

	var list []string
	for i := range n {
		id := fmt.Sprintf("kring-%d", i+1)
		h, err := c.net.host(id)
		if err != nil {
			t.Fatal(err)
		}
		nd := &Node{ID: id, URL: "http://" + h.listener.Addr().String(), cluster: c, host: h, log: &testlog.Buffer{}}
		c.Nodes = append(c.Nodes, nd)
		list = append(list, id+"="+nd.URL)
	}
	for i, nd := range c.Nodes {
		nd.cfg = c.config(nd, list)
		for _, edit := range edits {
			edit(i, &nd.cfg)
		}
	}
	for _, nd := range c.Nodes {
		nd.run()
	}
	c.WaitReady()
	return c
}

func (c *Cluster) config(nd *Node, list []string) node.Config {
	cfg := node.DefaultConfig()
	cfg.Node = node.Identity{ID: nd.ID, Listen: nd.host.listener.Addr().String()}
	if len(list) > 1 {
		cfg.Cluster.Peers = list
	}
	cfg.Cache.MaxBytes = 64 << 20
	cfg.Limits.RequestTimeout = patience
	docs := cache.DefaultGroupConfig("docs")
	docs.LoadTimeout = patience
	docs.TTL = time.Hour // and not what a busy machine may take for a test
	docs.Origin = cache.OriginConfig{Pool: "docs", Path: "/docs/{key}"}
	cfg.Groups = append(cfg.Groups, docs)
	pool := node.DefaultPoolConfig()
	pool.Name = "docs"
	pool.Endpoints = []balance.EndpointConfig{{Name: "a", URL: c.Origin.URL, Weight: 1}}
	cfg.Pools = []node.PoolConfig{pool}
	return cfg
}

// run starts the node on its host and returns when it listens.
func (n *Node) run() {
	n.cluster.t.Helper()
	nd, err := node.New(n.cfg, node.Options{
		Log:     slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Version: "test",
		Listen:  n.host.listen,
		Dial:    n.cluster.net.dial(n.host),
	})
	if err != nil {
		n.cluster.t.Fatalf("start %s: %v", n.ID, err)
	}
	n.Node = nd
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	done := make(chan error, 1)
	n.done = done
	go func() { done <- nd.Run(ctx) }()
}

// Alive reports whether the node was started and neither killed nor stopped.
func (n *Node) Alive() bool { return n.done != nil }

// Kill ends the node as kill -9 does: every connection breaks at once and
// nothing is handed over.
func (n *Node) Kill() {
	n.cluster.t.Helper()
	n.cluster.lossy = true
	n.host.kill()
	n.wait()
}

// Stop ends the node as SIGTERM does.
func (n *Node) Stop() {
	n.cluster.t.Helper()
	n.cluster.lossy = true
	n.wait()
}

func (n *Node) wait() {
	n.cluster.t.Helper()
	if n.done == nil {
		return
	}
	n.stop()
	select {
	case err := <-n.done:
		if err != nil && !n.host.isKilled() {
			n.cluster.t.Errorf("%s ended with: %v", n.ID, err)
		}
	case <-time.After(n.cluster.patience()):
		n.cluster.t.Errorf("%s did not stop", n.ID)
	}
	n.done = nil
	n.host.kill()
}

func (h *host) isKilled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.killed
}

// Restart starts a node that was killed or stopped, at its old address.
func (n *Node) Restart() {
	n.cluster.t.Helper()
	h, err := n.cluster.net.host(n.ID)
	if err != nil {
		n.cluster.t.Fatal(err)
	}
	n.host = h
	n.run()
}

// Hold stops the node's traffic until release, as SIGSTOP would: connections
// stay open, nothing is answered. Nothing is lost.
func (n *Node) Hold() (release func()) { return n.host.hold() }

// Cut breaks the connections between two nodes and lets them make no new ones.
func (c *Cluster) Cut(a, b *Node) {
	for _, p := range [][2]*Node{{a, b}, {b, a}} {
		p[0].host.mu.Lock()
		p[0].host.cut[p[1].ID] = true
		var broken []*conn
		for cn := range p[0].host.conns {
			if cn.RemoteAddr().String() == p[1].host.listener.Addr().String() {
				broken = append(broken, cn)
			}
		}
		p[0].host.mu.Unlock()
		for _, cn := range broken {
			_ = cn.Close()
		}
	}
}

// Mend ends a Cut.
func (c *Cluster) Mend(a, b *Node) {
	for _, p := range [][2]*Node{{a, b}, {b, a}} {
		p[0].host.mu.Lock()
		delete(p[0].host.cut, p[1].ID)
		p[0].host.mu.Unlock()
	}
}

// Log is what the node has logged so far.
func (n *Node) Log() string { return n.log.String() }

// WaitReady waits until every living node says that it is ready.
func (c *Cluster) WaitReady() {
	c.t.Helper()
	for _, n := range c.Nodes {
		if n.Alive() {
			Eventually(c.t, n.ID+" is ready", func() bool {
				r, err := c.TryDo(n, http.MethodGet, "/readyz", "")
				return err == nil && r.Status == http.StatusOK
			})
		}
	}
}

// Response is an answer read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// TryDo asks a node. The path is sent as it is given, escaped.
func (c *Cluster) TryDo(n *Node, method, path, body string, header ...string) (Response, error) {
	req, err := http.NewRequest(method, n.URL+path, strings.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return Response{}, fmt.Errorf("read the answer's body: %w", err)
	}
	return Response{Status: resp.StatusCode, Header: resp.Header, Body: string(b)}, nil
}

// Do is TryDo where no answer at all is a failure of the test.
func (c *Cluster) Do(n *Node, method, path, body string, header ...string) Response {
	c.t.Helper()
	r, err := c.TryDo(n, method, path, body, header...)
	if err != nil {
		c.t.Errorf("%s %s at %s: %v", method, path, n.ID, err)
	}
	return r
}

// Get asks a node for a path.
func (c *Cluster) Get(n *Node, path string, header ...string) Response {
	c.t.Helper()
	return c.Do(n, http.MethodGet, path, "", header...)
}

// Owner is the node that owns a key on the ring, alive or not.
func (c *Cluster) Owner(key string) *Node {
	c.t.Helper()
	for _, n := range c.Nodes {
		if n.Alive() {
			id := n.Peers().View().Ring.Get(key)
			for _, m := range c.Nodes {
				if m.ID == id {
					return m
				}
			}
		}
	}
	c.t.Fatalf("nobody owns %q", key)
	return nil
}

// Others are the nodes that are not n.
func (c *Cluster) Others(n *Node) []*Node {
	var others []*Node
	for _, m := range c.Nodes {
		if m != n {
			others = append(others, m)
		}
	}
	return others
}

// KeyOf finds a key that the node owns, different for each i.
func (c *Cluster) KeyOf(n *Node, i int) string {
	for j := 0; ; j++ {
		if k := fmt.Sprintf("key-%d-%d", i, j); c.Owner(k) == n {
			return k
		}
	}
}

// patience is less for what is cleaned up after a failure: that may never come.
func (c *Cluster) patience() time.Duration {
	if c.t.Failed() {
		return patience / 4
	}
	return patience
}

// Eventually waits for a condition, and fails the test when patience is over.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("did not come about: %s", what)
		}
		<-tick.C
	}
}

// shutdown checks the books of the living nodes, then stops them.
func (c *Cluster) shutdown() {
	c.checkBooks()
	// A stopping server waits 5 s for connections that have not asked anything
	// yet, and an http.Transport has those.
	c.client.CloseIdleConnections()
	for _, n := range c.Nodes {
		if n.done != nil {
			n.stop() // all at once: each takes its time to say that it goes
		}
	}
	for _, n := range c.Nodes {
		n.wait()
	}
	if c.t.Failed() {
		for _, n := range c.Nodes {
			log := n.Log()
			c.t.Logf("log of %s:\n%s", n.ID, log[max(0, len(log)-8<<10):])
		}
	}
}
