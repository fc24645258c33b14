package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kring/cache"
	"kring/cluster"
	"kring/membership"
	"kring/peers"
	"kring/peers/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a whole cluster in front of one origin, on a network in memory. The
// test's end checks the books.
type harness struct {
	t      *testing.T
	net    *memnet.Network
	nodes  []*node
	origin *origin
	lossy  bool // a node has gone, and its counters with it
}

// node is one member. It is the Handler of its peers, so that a test can stand between
// these and the cluster.
type node struct {
	*cluster.Cluster
	peers    *peers.Peers
	id, host string
	ends     func()

	mu      sync.Mutex // guards all below
	between func(ctx context.Context, in *peers.Inbound) peers.Reply
	asked   []peers.Inbound // the calls that Answer was called with
	changes []peers.Inbound // those that were carried out
}

// Answer answers another node's call as between does; as the cluster, unless a test
// says otherwise.
func (n *node) Answer(ctx context.Context, in *peers.Inbound) peers.Reply {
	n.mu.Lock()
	n.asked = append(n.asked, *in)
	answer := n.between
	n.mu.Unlock()
	if answer == nil {
		answer = n.Cluster.Answer
	}
	r := answer(ctx, in)
	if in.Changes() && r.Err == nil && !r.NotOwner && !r.PassedOn {
		n.mu.Lock()
		n.changes = append(n.changes, *in)
		n.mu.Unlock()
	}
	return r
}

func (n *node) on(between func(ctx context.Context, in *peers.Inbound) peers.Reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.between = between
}

// timesAsked is how many calls of an operation the node was asked to answer.
func (n *node) timesAsked(op cache.Op) (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.asked {
		if n.asked[i].Op == op {
			times++
		}
	}
	return times
}

// open reports whether a node's circuit to another is open.
func (n *node) open(id string) bool { return !n.peers.Standings().CanCall(id) }

// options are what a test may change of a node.
type options struct {
	cache  cache.Options
	peers  peers.Options
	seenBy func(p *peers.Peers) cluster.Peers // the peers as the cluster sees them, if not nil
}

func (o *options) docs() *cache.GroupConfig { return &o.cache.Groups[0] }

func host(i int) string { return fmt.Sprintf("n%d:1", i) }

// start makes n nodes and waits until they are ready and their links are established:
// with a new one they have more patience.
func start(t *testing.T, n int, tune ...func(i int, o *options)) *harness {
	t.Helper()
	c := &harness{t: t, net: memnet.New(), origin: newOrigin()}
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("n%d=http://%s", i, host(i)))
	}
	for i := range n {
		o := options{
			cache: cache.Options{Node: fmt.Sprintf("n%d", i), Config: cache.DefaultConfig(), Loader: c.origin, Groups: groups()},
			peers: peers.Options{Self: membership.Member{ID: fmt.Sprintf("n%d", i)}, Config: membership.DefaultConfig(), Dial: c.net.Dialer(host(i))},
		}
		o.peers.Config.Peers = slices.Clone(list)
		for _, f := range tune {
			f(i, &o)
		}
		c.nodes = append(c.nodes, c.run(i, o))
	}
	t.Cleanup(func() {
		c.checkBooks()
		for _, n := range c.nodes {
			n.ends()
		}
	})
	for _, n := range c.nodes {
		await(t, "ready", func() bool { ok, _ := n.peers.Ready(); return ok })
	}
	<-time.After(time.Second)
	return c
}

// groups are docs, which has an origin, and kv, which has none.
func groups() []cache.GroupConfig {
	docs := cache.DefaultGroupConfig("docs")
	docs.Origin = cache.OriginConfig{Pool: "docs", Path: "/{key}"}
	docs.LoadTimeout = time.Minute
	return []cache.GroupConfig{docs, {Name: "kv"}}
}

func (c *harness) run(i int, o options) *node {
	c.t.Helper()
	p, err := peers.New(o.peers)
	if err != nil {
		c.t.Fatal(err)
	}
	store, err := cache.New(o.cache)
	if err != nil {
		c.t.Fatal(err)
	}
	seen := cluster.Peers(p)
	if o.seenBy != nil {
		seen = o.seenBy(p)
	}
	n := &node{Cluster: cluster.New(store, seen), peers: p, id: o.cache.Node, host: host(i)}
	l, err := c.net.Listen(n.host)
	if err != nil {
		c.t.Fatal(err)
	}
	server := &http.Server{Handler: links(p), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			c.t.Error("serve:", err)
		}
	})
	p.Start(n)
	n.ends = sync.OnceFunc(func() {
		server.Close()
		p.Close()
		store.Close()
		serving.Wait()
	})
	return n
}

// links is the route on which a node takes the links of others.
func links(p *peers.Peers) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := p.Accept(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

// kill ends a node as kill -9 would: its connections break at once.
func (c *harness) kill(i int) {
	c.lossy = true
	c.net.Kill(c.nodes[i].host)
	c.nodes[i].ends()
}

// hold keeps what a node sends and receives until release, as a pause would.
func (c *harness) hold(i int) (release func()) {
	var releases []func()
	for j := range c.nodes {
		if j != i {
			releases = append(releases, c.part(i, j))
		}
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// part keeps what two nodes send to each other until join.
func (c *harness) part(i, j int) (join func()) {
	c.net.Hold(host(i), host(j))
	c.net.Hold(host(j), host(i))
	return func() {
		c.net.Release(host(i), host(j))
		c.net.Release(host(j), host(i))
	}
}

// awaitOpen waits until a node does not call another; awaitClosed, until it does.
func (c *harness) awaitOpen(from, to int) {
	c.t.Helper()
	await(c.t, "circuit open", func() bool { return c.nodes[from].open(c.nodes[to].id) })
}

func (c *harness) awaitClosed(from, to int) {
	c.t.Helper()
	await(c.t, "circuit closed", func() bool { return !c.nodes[from].open(c.nodes[to].id) })
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

// key is the jth key whose first owners on the ring are the given nodes.
func (c *harness) key(j int, owners ...int) string {
	c.t.Helper()
	ring := c.nodes[0].peers.View().Ring
	for i := range 1_000_000 {
		key := fmt.Sprintf("key-%d", i)
		got := ring.Owners(key, len(owners))
		match := true
		for k, o := range owners {
			match = match && got[k] == fmt.Sprintf("n%d", o)
		}
		if match {
			if j == 0 {
				return key
			}
			j--
		}
	}
	c.t.Fatal("no such key")
	return ""
}

func doc(key string) cache.Key { return cache.Key{Group: "docs", Key: key} }
func kv(key string) cache.Key  { return cache.Key{Group: "kv", Key: key} }

// get gets a key of the group docs at a node.
func (c *harness) get(ctx context.Context, node int, key string) (cache.Answer, error) {
	return c.nodes[node].Get(ctx, doc(key), false)
}

// outcome is how a get ended.
type outcome struct {
	cache.Answer
	err error
}

func (o outcome) value() string {
	if o.err != nil {
		return o.err.Error()
	}
	return string(o.Entry.Value)
}

// crowd gets keys at a node, all at once, and returns when all gets wait. The answers
// are sorted by their values.
func (c *harness) crowd(ctx context.Context, node int, keys ...string) (answers func() map[string][]outcome) {
	ended := make(chan outcome, len(keys))
	for _, key := range keys {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // nothing waits for ever
			defer cancel()
			a, err := c.get(ctx, node, key)
			ended <- outcome{a, err}
		}()
	}
	synctest.Wait()
	return func() map[string][]outcome {
		by := map[string][]outcome{}
		for range keys {
			o := <-ended
			by[o.value()] = append(by[o.value()], o)
		}
		return by
	}
}

func times(n int, key string) []string { return slices.Repeat([]string{key}, n) }

func numbered(prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint(prefix, i)
	}
	return keys
}

// getMany collects what GetMany yields, which is one whole run over the keys.
func getMany(ctx context.Context, t *testing.T, c *cluster.Cluster, group string, keys []string, within time.Duration) []cache.Result {
	t.Helper()
	var all []cache.Result
	for at, results := range c.GetMany(ctx, group, keys, within) {
		if at != len(all) || len(results) == 0 {
			t.Errorf("%d results from %d, when %d have come", len(results), at, len(all))
		}
		all = append(all, results...)
	}
	if len(all) != len(keys) {
		t.Fatalf("%d results of %d keys", len(all), len(keys))
	}
	return all
}

// inFlight is how many calls of a node to another have no final answer.
func (c *harness) inFlight(from, to int) int {
	for _, p := range c.nodes[from].peers.Stats().Peers {
		if p.ID == c.nodes[to].id {
			return p.InFlight
		}
	}
	return 0
}

// quick is more than anything takes that need not wait, of virtual time.
const quick = 10 * time.Millisecond

// within checks that a request takes no time: nothing held it up.
func within(t *testing.T, limit time.Duration, what string, request func() error) {
	t.Helper()
	began := time.Now()
	if err := request(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v", what, took)
	}
}

// checkBooks checks the books soon after the last call has ended on both sides.
func (c *harness) checkBooks() {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); c.unbalanced() != "" && time.Now().Before(deadline); {
		<-time.After(50 * time.Millisecond)
	}
	synctest.Wait()
	if wrong := c.unbalanced(); wrong != "" {
		c.t.Error("the books do not balance:", wrong)
	}
}

// unbalanced says what is wrong with the books, or "".
func (c *harness) unbalanced() (wrong string) {
	var peer, served, loads uint64
	var abandoned int64
	for i, n := range c.nodes {
		s := n.Stats()
		if sum := s.Hits + s.HotHits + s.Stale + s.Joined + s.Peer + s.Loads + s.Refused; s.Gets != sum {
			return fmt.Sprintf("n%d: %d gets, %d answers: %+v", i, s.Gets, sum, s.Reads)
		}
		peer, served, loads = peer+s.Peer, served+s.Served, loads+s.Loads+s.ServedLoads+s.Refreshes
		abandoned += s.Abandoned
		for j := range c.nodes {
			if c.inFlight(i, j) > 0 && !c.lossy {
				return fmt.Sprintf("calls from n%d to n%d have no answer", i, j)
			}
		}
	}
	switch total := c.origin.requests(); {
	case c.lossy:
	case int64(peer) != int64(served)+abandoned:
		return fmt.Sprintf("peer %d, served %d + abandoned %d", peer, served, abandoned)
	case loads != uint64(total):
		return fmt.Sprintf("%d loads, the origin saw %d", loads, total)
	}
	return ""
}

// origin answers key#n to the nth request for a key. The requests for keys that hang
// wait.
type origin struct {
	mu    sync.Mutex // guards all below
	gates map[string]chan struct{}
	sent  map[string]int
	total int
	load  func(ctx context.Context, l *cache.Load) (cache.Loaded, error) // in place of that, if not nil
}

func newOrigin() *origin {
	return &origin{gates: map[string]chan struct{}{}, sent: map[string]int{}}
}

func (o *origin) Load(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
	o.mu.Lock()
	l.Sent.Add(1)
	o.total++
	o.sent[l.Key.Key]++
	value := fmt.Sprintf("%s#%d", l.Key.Key, o.sent[l.Key.Key])
	gate, load := o.gates[l.Key.Key], o.load
	o.mu.Unlock()
	if load != nil {
		return load(ctx, l)
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return cache.Loaded{}, ctx.Err()
		}
	}
	return loaded([]byte(value)), nil
}

func loaded(value []byte) cache.Loaded {
	return cache.Loaded{Entry: &cache.Entry{Value: value}, Status: 200, Endpoint: "a", Freshness: cache.Unsaid}
}

// answers makes load the answer to each request from now on.
func (o *origin) answers(load func(ctx context.Context, l *cache.Load) (cache.Loaded, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.load = load
}

// hang makes the requests for keys that come from now on wait until release.
func (o *origin) hang(keys ...string) (release func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	gate := make(chan struct{})
	for _, key := range keys {
		o.gates[key] = gate
	}
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, key := range keys {
			if o.gates[key] == gate {
				delete(o.gates, key)
			}
		}
		close(gate)
	})
}

func (o *origin) loads(key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent[key]
}

func (o *origin) requests() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}
