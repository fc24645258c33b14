package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kring/node"
	"kring/node/nodetest"
)

func docs(key string) string { return "/v1/cache/docs/" + key }

func wantValue(t *testing.T, r nodetest.Response, key string) {
	t.Helper()
	if r.Status != http.StatusOK || r.Body != nodetest.Body(key) {
		t.Errorf("%s: status %d, body %q, Cache-Status %q", key, r.Status, r.Body, r.Header.Get("Cache-Status"))
	}
}

// Each key is loaded once and answered by its one owner, whichever node is asked.
func TestEachKeyIsLoadedOnceThroughAnyNode(t *testing.T) {
	c := nodetest.Start(t, 3)
	owned := map[string]int{}
	for i := range 60 {
		key := fmt.Sprintf("user:%d", i)
		owner := c.Owner(key).ID
		owned[owner]++
		for _, n := range c.Nodes {
			r := c.Get(n, docs(key))
			wantValue(t, r, key)
			if got := r.Header.Get("Kring-Owner"); got != owner {
				t.Errorf("%s through %s: owner %q, the ring says %q", key, n.ID, got, owner)
			}
		}
		if got := c.Origin.Loads(key); got != 1 {
			t.Errorf("%s was loaded %d times", key, got)
		}
	}
	if len(owned) != 3 {
		t.Errorf("60 keys have %d owners: %v", len(owned), owned)
	}
}

func TestCacheStatusTellsMissPeerAndHit(t *testing.T) {
	c := nodetest.Start(t, 2)
	owner, entry := c.Nodes[1], c.Nodes[0]
	key := c.KeyOf(owner, 0)
	if got := c.Get(owner, docs(key)).Header.Get("Cache-Status"); got != owner.ID+"; fwd=miss; fwd-status=200; stored" {
		t.Errorf("first get at the owner: %q", got)
	}
	if got := c.Get(owner, docs(key)).Header.Get("Cache-Status"); !strings.HasPrefix(got, owner.ID+"; hit; ttl=") {
		t.Errorf("second get at the owner: %q", got)
	}
	got := c.Get(entry, docs(key)).Header.Get("Cache-Status")
	if !strings.HasPrefix(got, owner.ID+"; hit; ttl=") || !strings.HasSuffix(got, ", "+entry.ID+"; fwd=miss; detail=peer:"+owner.ID) {
		t.Errorf("get through the other node: %q", got)
	}
}

func TestStampedeThroughAllNodesIsOneLoad(t *testing.T) {
	c := nodetest.Start(t, 3)
	release := c.Origin.Hold()
	defer release()
	var wg sync.WaitGroup
	for i := range 150 {
		wg.Go(func() { wantValue(t, c.Get(c.Nodes[i%3], docs("hot")), "hot") })
	}
	nodetest.Eventually(t, "the load is under way", func() bool { return c.Origin.Loads("hot") == 1 })
	release()
	wg.Wait()
	if got := c.Origin.Loads("hot"); got != 1 {
		t.Errorf("%d loads", got)
	}
}

// load gets the keys from all given nodes with several clients until stop is
// closed. It reports every answer that is not the key's value.
func load(t *testing.T, c *nodetest.Cluster, nodes []*nodetest.Node, keys []string, stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := keys[i%len(keys)]
				wantValue(t, c.Get(nodes[i%len(nodes)], docs(key)), key)
			}
		})
	}
	return &wg
}

func someKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%d", i)
	}
	return keys
}

// Kill -9 of one of three nodes under load: the others give no error, each lost
// key is loaded at most once more, and keys of living nodes not at all.
func TestKillOfAnOwnerUnderLoad(t *testing.T) {
	c := nodetest.Start(t, 3)
	keys := someKeys(300)
	for _, k := range keys {
		wantValue(t, c.Get(c.Nodes[0], docs(k)), k)
	}
	victim := c.Nodes[2]
	lost := map[string]bool{}
	for _, k := range keys {
		lost[k] = c.Owner(k) == victim
	}
	stop := make(chan struct{})
	wg := load(t, c, c.Others(victim), keys, stop)
	victim.Kill()
	nodetest.Eventually(t, "every lost key is answered again", func() bool {
		for k, l := range lost {
			if l && c.Origin.Loads(k) < 2 {
				return false
			}
		}
		return true
	})
	close(stop)
	wg.Wait()
	for k, n := range c.Origin.Counts() {
		if want := map[bool]int{true: 2, false: 1}[lost[k]]; n != want {
			t.Errorf("%s (lost: %v): %d loads", k, lost[k], n)
		}
	}
}

// A hanging owner with open connections is passed over without an error, and
// owns its keys again when it goes on.
func TestHangingOwner(t *testing.T) {
	c := nodetest.Start(t, 3)
	victim := c.Nodes[1]
	keys := someKeys(100)
	for _, k := range keys {
		wantValue(t, c.Get(c.Nodes[0], docs(k)), k)
	}
	release := victim.Hold()
	defer release()
	stop := make(chan struct{})
	wg := load(t, c, c.Others(victim), keys, stop)
	nodetest.Eventually(t, "every key of the hanging node is answered by another", func() bool {
		for _, k := range keys {
			if c.Owner(k) == victim && c.Origin.Loads(k) < 2 {
				return false
			}
		}
		return true
	})
	close(stop)
	wg.Wait()
	for k, n := range c.Origin.Counts() {
		if c.Owner(k) == victim && n > 2 || c.Owner(k) != victim && n > 1 {
			t.Errorf("%s, owned by %s: %d loads", k, c.Owner(k).ID, n)
		}
	}
	release()
	key := c.KeyOf(victim, 1)
	nodetest.Eventually(t, "the node answers for its keys again", func() bool {
		r := c.Get(c.Nodes[0], docs(key))
		return strings.HasPrefix(r.Header.Get("Cache-Status"), victim.ID+"; ")
	})
}

func TestWritesAreSeenThroughEveryNode(t *testing.T) {
	c := nodetest.Start(t, 3)
	for i := range 30 {
		path := fmt.Sprintf("/v1/cache/kv/k%d", i)
		if r := c.Do(c.Nodes[i%3], http.MethodPut, path, "one"); r.Status != http.StatusCreated {
			t.Fatalf("first put: %d %s", r.Status, r.Body)
		}
		if r := c.Do(c.Nodes[(i+1)%3], http.MethodPut, path, "two"); r.Status != http.StatusNoContent {
			t.Fatalf("second put: %d %s", r.Status, r.Body)
		}
		for _, n := range c.Nodes {
			if r := c.Get(n, path); r.Body != "two" {
				t.Errorf("%s through %s: %d %q", path, n.ID, r.Status, r.Body)
			}
		}
		if r := c.Do(c.Nodes[(i+2)%3], http.MethodDelete, path, ""); r.Status != http.StatusNoContent {
			t.Errorf("delete: %d %s", r.Status, r.Body)
		}
		for _, n := range c.Nodes {
			if r := c.Get(n, path); r.Status != http.StatusNotFound {
				t.Errorf("%s through %s after the delete: %d %q", path, n.ID, r.Status, r.Body)
			}
		}
	}
}

// A delete is answered while a load is in flight: no request that begins later
// sees the value of that load.
func TestDeleteDuringALoad(t *testing.T) {
	c := nodetest.Start(t, 3)
	var loads atomic.Int64
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) {
		if loads.Add(1) > 1 {
			fmt.Fprint(w, "new")
			return
		}
		<-held
		fmt.Fprint(w, "old")
	})
	key := c.KeyOf(c.Nodes[0], 0)
	first := make(chan nodetest.Response, 1)
	go func() { first <- c.Get(c.Nodes[1], docs(key)) }()
	nodetest.Eventually(t, "the load is under way", func() bool { return c.Origin.Loads(key) == 1 })
	if r := c.Do(c.Nodes[2], http.MethodDelete, docs(key), ""); r.Status != http.StatusNoContent {
		t.Fatalf("delete: %d %s", r.Status, r.Body)
	}
	later := make(chan nodetest.Response, 1)
	go func() { later <- c.Get(c.Nodes[2], docs(key)) }()
	release()
	if r := <-first; r.Status != http.StatusOK || r.Body != "old" {
		t.Errorf("the get before the delete: %d %s", r.Status, r.Body)
	}
	if r := <-later; r.Status != http.StatusOK || r.Body != "new" {
		t.Errorf("the get after the delete: %d %s", r.Status, r.Body)
	}
	for _, n := range c.Nodes {
		if r := c.Get(n, docs(key)); r.Body != "new" {
			t.Errorf("through %s afterwards: %d %s", n.ID, r.Status, r.Body)
		}
	}
	if got := c.Origin.Loads(key); got != 2 {
		t.Errorf("%d loads: want one before the delete and one after it", got)
	}
}

func TestPurgeOfAGroup(t *testing.T) {
	c := nodetest.Start(t, 3)
	keys := someKeys(40)
	for _, k := range keys {
		wantValue(t, c.Get(c.Nodes[0], docs(k)), k)
	}
	if r := c.Do(c.Nodes[1], http.MethodDelete, "/v1/cache/docs", ""); r.Status != http.StatusNoContent {
		t.Fatalf("purge: %d %s", r.Status, r.Body)
	}
	for _, n := range c.Nodes {
		if b := c.Books(n); b.Entries != 0 || b.Bytes != 0 {
			t.Errorf("%s still has %d entries, %d bytes", n.ID, b.Entries, b.Bytes)
		}
	}
	for i, k := range keys {
		wantValue(t, c.Get(c.Nodes[i%3], docs(k)), k)
		if got := c.Origin.Loads(k); got != 2 {
			t.Errorf("%s: %d loads", k, got)
		}
	}
}

// P8: without an eligible endpoint the answer is a clear 503, and no request is
// sent.
func TestAnEmptyPoolSendsNothing(t *testing.T) {
	c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Pools[0].Endpoints[0].Weight = 0 })
	for i := range 9 {
		r := c.Get(c.Nodes[i%3], docs(fmt.Sprint("k", i/3)))
		if r.Status != http.StatusServiceUnavailable || !strings.Contains(r.Body, "no-eligible-endpoint") || r.Header.Get("Retry-After") == "" {
			t.Errorf("status %d, Retry-After %q, body %s", r.Status, r.Header.Get("Retry-After"), r.Body)
		}
	}
	if got := c.Origin.Total(); got != 0 {
		t.Errorf("%d requests left", got)
	}
}

func TestABrokenLinkBetweenTwoNodesIsNoError(t *testing.T) {
	c := nodetest.Start(t, 3)
	c.Cut(c.Nodes[0], c.Nodes[1])
	for i, k := range someKeys(60) {
		wantValue(t, c.Get(c.Nodes[i%3], docs(k)), k)
	}
	c.Mend(c.Nodes[0], c.Nodes[1])
}

// Two nodes that each think that the other owns a key answer, and do not pass
// the request back and forth.
func TestNodesWithDifferentListsAnswer(t *testing.T) {
	c := nodetest.Start(t, 3, func(i int, cfg *node.Config) {
		if i == 0 {
			cfg.Cluster.Peers = cfg.Cluster.Peers[:2]
		}
	})
	for i, k := range someKeys(60) {
		wantValue(t, c.Get(c.Nodes[i%3], docs(k)), k)
	}
}

// SIGTERM of one of three nodes under load: no error through the others, its
// keys are loaded once more, keys of the others not at all.
func TestGracefulStopUnderLoad(t *testing.T) {
	c := nodetest.Start(t, 3)
	stopped := c.Nodes[2]
	keys := someKeys(100)
	for _, k := range keys {
		wantValue(t, c.Get(c.Nodes[0], docs(k)), k)
	}
	stop := make(chan struct{})
	wg := load(t, c, c.Others(stopped), keys, stop)
	stopped.Stop()
	for _, k := range keys {
		wantValue(t, c.Get(c.Nodes[0], docs(k)), k)
	}
	close(stop)
	wg.Wait()
	for k, n := range c.Origin.Counts() {
		if want := map[bool]int{true: 2, false: 1}[c.Owner(k) == stopped]; n != want {
			t.Errorf("%s, owned by %s: %d loads, want %d", k, c.Owner(k).ID, n, want)
		}
	}
	stopped.Restart()
	c.WaitReady()
	for i, k := range keys {
		wantValue(t, c.Get(c.Nodes[i%3], docs(k)), k)
	}
}

// The first of 50 waiters leaves: the other 49 get the value of one load.
func TestTheFirstOfFiftyWaitersLeaves(t *testing.T) {
	c := nodetest.Start(t, 3)
	key := c.KeyOf(c.Nodes[0], 0)
	release := c.Origin.Hold()
	defer release()
	leave, left := cancellableGet(t, c.Nodes[1].URL+docs(key))
	nodetest.Eventually(t, "the first waits", func() bool { return c.Origin.Loads(key) == 1 })
	var wg sync.WaitGroup
	for i := range 49 {
		wg.Go(func() { wantValue(t, c.Get(c.Nodes[i%3], docs(key)), key) })
	}
	nodetest.Eventually(t, "the others wait", func() bool {
		var n int64
		for _, nd := range c.Nodes {
			b := c.Books(nd)
			n += b.Gets
		}
		return n >= 50
	})
	leave()
	<-left
	release()
	wg.Wait()
	if got := c.Origin.Loads(key); got != 1 {
		t.Errorf("%d loads", got)
	}
}
