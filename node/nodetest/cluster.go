// Package nodetest runs a cluster of real nodes in one process, on free ports
// of 127.0.0.1, in front of an origin that counts its loads. After every test
// it checks that the books balance and that no goroutine is left.
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

// Cluster is several nodes that know each other, and their origin.
type Cluster struct {
	Nodes  []*Node
	Origin *Origin

	t      testing.TB
	net    *network
	client *http.Client
	// lossy is set when a node's counters were lost with it. Then only each
	// living node's own books can be checked.
	lossy bool
}

// Node is one node of a Cluster. A Restart replaces its embedded node.
type Node struct {
	*node.Node
	ID  string
	URL string

	cluster *Cluster
	cfg     node.Config
	host    *host
	stop    context.CancelFunc
	done    chan error // the result of Run; nil while the node does not run
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
	docs.TTL = time.Hour // a busy machine may need longer than the default for a test
	docs.Origin = cache.OriginConfig{Pool: "docs", Path: "/docs/{key}"}
	cfg.Groups = append(cfg.Groups, docs)
	pool := node.DefaultPoolConfig()
	pool.Name = "docs"
	pool.Endpoints = []balance.EndpointConfig{{Name: "a", URL: c.Origin.URL, Weight: 1}}
	cfg.Pools = []node.PoolConfig{pool}
	return cfg
}

// run starts the node on its host, and returns when it listens.
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

// Alive reports whether the node runs.
func (n *Node) Alive() bool { return n.done != nil }

// Kill ends the node as kill -9 does: every connection breaks at once, and the
// node hands nothing over.
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

// Hold stops the node's traffic until release, as SIGSTOP would: connections stay
// open, and nothing is answered or lost.
func (n *Node) Hold() (release func()) { return n.host.hold() }

// Cut breaks the connections between two nodes and refuses new ones.
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

// Log is the node's log so far.
func (n *Node) Log() string { return n.log.String() }

// WaitReady waits until every living node reports that it is ready.
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

// Response is a whole answer.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// TryDo sends a request to a node. The path must be escaped.
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

// Do is TryDo, and fails the test if there is no answer.
func (c *Cluster) Do(n *Node, method, path, body string, header ...string) Response {
	c.t.Helper()
	r, err := c.TryDo(n, method, path, body, header...)
	if err != nil {
		c.t.Errorf("%s %s at %s: %v", method, path, n.ID, err)
	}
	return r
}

// Get sends a GET to a node.
func (c *Cluster) Get(n *Node, path string, header ...string) Response {
	c.t.Helper()
	return c.Do(n, http.MethodGet, path, "", header...)
}

// Owner is the owner of a key on the ring, alive or not.
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
	c.t.Fatalf("no node owns %q", key)
	return nil
}

// Others are all nodes except n.
func (c *Cluster) Others(n *Node) []*Node {
	var others []*Node
	for _, m := range c.Nodes {
		if m != n {
			others = append(others, m)
		}
	}
	return others
}

// KeyOf finds a key that the node owns, a different one for each i.
func (c *Cluster) KeyOf(n *Node, i int) string {
	for j := 0; ; j++ {
		if k := fmt.Sprintf("key-%d-%d", i, j); c.Owner(k) == n {
			return k
		}
	}
}

// patience is shorter after a failure: what a cleanup waits for may never
// happen then.
func (c *Cluster) patience() time.Duration {
	if c.t.Failed() {
		return patience / 4
	}
	return patience
}

// Eventually waits for a condition, and fails the test if it never holds.
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
	// A stopping server waits 5 s for connections without a request, and an
	// http.Transport has such connections.
	c.client.CloseIdleConnections()
	for _, n := range c.Nodes {
		if n.done != nil {
			n.stop() // all at once, because each one is a lame duck for a while
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
