package peers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/membership"
	"kring/peers"
	"kring/peers/memnet"
)

// speaking has a node speak an older version of the protocol.
func speaking(node int, version byte) func(i int, o *cache.Options) {
	return func(i int, o *cache.Options) {
		if i == node {
			o.Router.(*peers.Peers).Speaks(version)
		}
	}
}

// caches is a cluster of real caches in front of one origin, on a network in
// memory. The test's end checks the books.
type caches struct {
	t      *testing.T
	net    *memnet.Network
	nodes  []*cacheNode
	origin *slowOrigin
	lossy  bool // a node has gone, and its counters with it
}

type cacheNode struct {
	*cache.Cache
	peers  *peers.Peers
	host   string
	server *http.Server
	ends   func()
}

// slowOrigin answers key#n to the nth request for a key, and makes those for
// keys that hang wait.
type slowOrigin struct {
	mu    sync.Mutex // guards all below
	gates map[string]chan struct{}
	sent  map[string]int
	total int
}

func (o *slowOrigin) Load(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
	o.mu.Lock()
	l.Sent.Add(1)
	o.total++
	o.sent[l.Key.Key]++
	value := fmt.Sprintf("%s#%d", l.Key.Key, o.sent[l.Key.Key])
	gate := o.gates[l.Key.Key]
	o.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return cache.Loaded{}, ctx.Err()
		}
	}
	return cache.Loaded{Entry: &cache.Entry{Value: []byte(value)}, Status: 200, Endpoint: "a", Freshness: cache.Unsaid}, nil
}

// hang makes the requests for keys that come from now on wait until release.
func (o *slowOrigin) hang(keys ...string) (release func()) {
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

func (o *slowOrigin) loads(key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent[key]
}

func startCaches(t *testing.T, n int, tune ...func(i int, o *cache.Options)) *caches {
	t.Helper()
	c := &caches{t: t, net: memnet.New(), origin: &slowOrigin{gates: map[string]chan struct{}{}, sent: map[string]int{}}}
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("n%d=http://%s", i, host(i)))
	}
	for i := range n {
		po := peers.Options{Self: membership.Member{ID: fmt.Sprintf("n%d", i)}, Config: membership.DefaultConfig(), Dial: c.net.Dialer(host(i))}
		po.Config.Peers = list
		p, err := peers.New(po)
		if err != nil {
			t.Fatal(err)
		}
		docs := cache.DefaultGroupConfig("docs")
		docs.Origin = cache.OriginConfig{Pool: "docs", Path: "/{key}"}
		docs.LoadTimeout = time.Minute
		o := cache.Options{
			Node: po.Self.ID, Config: cache.DefaultConfig(), Loader: c.origin, Router: p, Purger: p,
			Groups: []cache.GroupConfig{docs, {Name: "kv"}},
		}
		for _, f := range tune {
			f(i, &o)
		}
		store, err := cache.New(o)
		if err != nil {
			t.Fatal(err)
		}
		nd := &cacheNode{Cache: store, peers: p, host: host(i)}
		c.nodes = append(c.nodes, nd)
		l, err := c.net.Listen(nd.host)
		if err != nil {
			t.Fatal(err)
		}
		nd.server = &http.Server{Handler: p, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		var serving sync.WaitGroup
		serving.Go(func() { _ = nd.server.Serve(l) })
		p.Start(store)
		nd.ends = sync.OnceFunc(func() {
			nd.server.Close()
			p.Close()
			store.Close()
			serving.Wait()
		})
	}
	t.Cleanup(func() {
		c.checkBooks()
		for _, nd := range c.nodes {
			nd.ends()
		}
	})
	for _, nd := range c.nodes {
		await(t, "ready", func() bool { ok, _ := nd.peers.Ready(); return ok })
	}
	<-time.After(time.Second)
	return c
}

func (c *caches) kill(i int) {
	c.lossy = true
	c.net.Kill(c.nodes[i].host)
	c.nodes[i].ends()
}

// hold keeps what a node sends and receives until release, as a pause would.
func (c *caches) hold(i int) (release func()) {
	each := func(do func(from, to string)) {
		for j := range c.nodes {
			if j != i {
				do(host(i), host(j))
				do(host(j), host(i))
			}
		}
	}
	each(c.net.Hold)
	return func() { each(c.net.Release) }
}

// key is the jth key whose first owners on the ring are the given nodes.
func (c *caches) key(j int, owners ...int) string {
	c.t.Helper()
	ring := c.nodes[0].peers.View().Ring
	for i := 0; ; i++ {
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
}

func doc(key string) cache.Key { return cache.Key{Group: "docs", Key: key} }

// outcome is what a get came to.
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

// crowd has a node asked for keys, all at once, and returns when all wait. The
// answers come by what they say.
func (c *caches) crowd(ctx context.Context, node int, keys ...string) (answers func() map[string][]outcome) {
	ended := make(chan outcome, len(keys))
	for _, key := range keys {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // nothing waits for ever
			defer cancel()
			a, err := c.nodes[node].Get(ctx, doc(key), false)
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

func times(n int, key string) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = key
	}
	return keys
}

// inFlight is how many calls of a node to another have no final answer.
func (c *caches) inFlight(from, to int) int {
	for _, p := range c.nodes[from].peers.Stats().Peers {
		if p.ID == fmt.Sprintf("n%d", to) {
			return p.InFlight
		}
	}
	return -1
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

// othersPass checks that requests of all kinds from one node to another are
// answered without waiting for what waits on their link.
func (c *caches) othersPass(from, to int) {
	c.t.Helper()
	key := c.key(900, to)
	n := c.nodes[from]
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	get := func() error { _, err := n.Get(ctx, doc(key), false); return err }
	within(c.t, quick, "a miss", get)
	within(c.t, quick, "a hit", get)
	within(c.t, quick, "a put", func() error {
		_, err := n.Put(ctx, &cache.Request{Key: cache.Key{Group: "kv", Key: key}, Value: []byte("v")})
		return err
	})
	within(c.t, quick, "a delete", func() error { return n.Delete(ctx, cache.Key{Group: "kv", Key: key}) })
	within(c.t, quick, "a get of what is stored alone", func() error {
		_, err := n.Get(ctx, doc(c.key(901, to)), true)
		if errors.Is(err, cache.ErrNotCached) {
			return nil
		}
		return fmt.Errorf("came to %w", err)
	})
	within(c.t, quick, "a batch", func() error {
		for _, r := range n.GetMany(ctx, "docs", []string{key, c.key(902, to), key}, nil) {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
}

func (c *caches) purgePasses(from int) {
	c.t.Helper()
	within(c.t, quick, "a purge", func() error { return c.nodes[from].Purge(c.t.Context(), "kv") })
}

func (c *caches) checkBooks() {
	c.t.Helper()
	unbalanced := func() (wrong string) {
		var peer, served, loads uint64
		var abandoned int64
		for i, n := range c.nodes {
			s := n.Stats()
			if sum := s.Hits + s.HotHits + s.Stale + s.Joined + s.Peer + s.Loads + s.Refused; s.Gets != sum {
				return fmt.Sprintf("n%d: %d gets, %d answers: %+v", i, s.Gets, sum, s.Reads)
			}
			peer, served, loads = peer+s.Peer, served+s.Served, loads+s.Loads+s.ServedLoads+s.Refreshes
			abandoned += n.peers.Stats().Abandoned
			for j := range c.nodes {
				if c.inFlight(i, j) > 0 && !c.lossy {
					return fmt.Sprintf("calls from n%d to n%d have no answer", i, j)
				}
			}
		}
		c.origin.mu.Lock()
		defer c.origin.mu.Unlock()
		switch {
		case c.lossy:
		case int64(peer) != int64(served)+abandoned:
			return fmt.Sprintf("peer %d, served %d + abandoned %d", peer, served, abandoned)
		case loads != uint64(c.origin.total):
			return fmt.Sprintf("%d loads, the origin saw %d", loads, c.origin.total)
		}
		return ""
	}
	for deadline := time.Now().Add(20 * time.Second); unbalanced() != "" && time.Now().Before(deadline); {
		<-time.After(50 * time.Millisecond)
	}
	synctest.Wait()
	if wrong := unbalanced(); wrong != "" {
		c.t.Error("the books do not balance:", wrong)
	}
}
