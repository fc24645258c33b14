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

// callsTo is how many calls of one node to another have no final answer.
func callsTo(from, to *nodetest.Node) int {
	for _, p := range from.Peers().Stats().Peers {
		if p.ID == to.ID {
			return p.InFlight
		}
	}
	return -1
}

// One key hangs at its origin. Clients of another node that wait for it, alone
// or in batches, use one call on the link between the two nodes. Nothing else
// on the link waits.
func TestASlowKeyHoldsUpNothingElseOnALink(t *testing.T) {
	c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) {
		cfg.Limits.MaxWaiters, cfg.Limits.MaxWaitersPerKey = 20000, 20000
	})
	entry, owner := c.Nodes[0], c.Nodes[1]
	slow, stored := c.KeyOf(owner, 0), c.KeyOf(owner, 1)
	wantValue(t, c.Get(entry, docs(stored)), stored)
	release := c.Origin.Hold()
	defer release()

	const clients, batches = 40, 60 // a batch first waits for four of its keys
	var waiting sync.WaitGroup
	var collapsed atomic.Int64
	get := func() {
		waiting.Go(func() {
			r := c.Get(entry, docs(slow))
			wantValue(t, r, slow)
			if strings.Contains(r.Header.Get("Cache-Status"), entry.ID+"; fwd=miss; collapsed; detail=peer:"+owner.ID) {
				collapsed.Add(1)
			}
		})
	}
	body := `{"keys":["` + strings.Repeat(slow+`","`, 49) + slow + `"]}`
	for range batches {
		waiting.Go(func() {
			if r := c.Do(entry, http.MethodPost, "/v1/batch/docs", body); strings.Count(r.Body, `"status":200`) != 50 {
				t.Errorf("a batch: %d %.200s", r.Status, r.Body)
			}
		})
	}
	for range clients {
		get()
	}
	nodetest.Eventually(t, "all wait, and share one call", func() bool {
		return c.Books(entry).Gets >= clients+4*batches && callsTo(entry, owner) == 1
	})
	get() // and a later client

	path := "/v1/cache/kv/" + stored
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodGet, docs(stored), "", http.StatusOK},
		{http.MethodPut, path, "v", http.StatusCreated},
		{http.MethodGet, path, "", http.StatusOK},
		{http.MethodPost, "/v1/batch/kv", `{"keys":["` + stored + `"]}`, http.StatusOK},
		{http.MethodDelete, path, "", http.StatusNoContent},
		{http.MethodDelete, "/v1/cache/kv", "", http.StatusNoContent},
	} {
		if r := c.Do(entry, step.method, step.path, step.body); r.Status != step.status {
			t.Errorf("%s %s beside those that wait: %d %s", step.method, step.path, r.Status, r.Body)
		}
	}
	if c.Origin.Loads(slow) != 1 {
		t.Errorf("%d loads of the slow key", c.Origin.Loads(slow))
	}
	release()
	waiting.Wait()
	if n := collapsed.Load(); n < clients-1 {
		t.Errorf("%d of %d clients were told that their gets were collapsed", n, clients+1)
	}
	if b := c.Books(owner); b.ServedJoined != 0 || c.Books(entry).Joined < clients+4*batches-1 {
		t.Errorf("%d joined at the owner, %d at the entry node", b.ServedJoined, c.Books(entry).Joined)
	}
}

// The limits of waiters apply at the node that the client asks, whichever node
// owns the key.
func TestWaitersAreLimitedAtTheNodeThatIsAsked(t *testing.T) {
	for name, limit := range map[string]func(cfg *node.Config){
		"max_waiters":         func(cfg *node.Config) { cfg.Limits.MaxWaiters = 5 },
		"max_waiters_per_key": func(cfg *node.Config) { cfg.Limits.MaxWaitersPerKey = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			c := nodetest.Start(t, 2, func(i int, cfg *node.Config) {
				if i == 0 {
					limit(cfg)
				}
			})
			entry, owner := c.Nodes[0], c.Nodes[1]
			slow, stored := c.KeyOf(owner, 0), c.KeyOf(owner, 1)
			wantValue(t, c.Get(entry, docs(stored)), stored)
			release := c.Origin.Hold()
			defer release()
			var waiting sync.WaitGroup
			var refused, answered atomic.Int64
			for range 12 {
				waiting.Go(func() {
					switch r := c.Get(entry, docs(slow)); {
					case r.Status == http.StatusOK:
						answered.Add(1)
					case r.Status == http.StatusServiceUnavailable && strings.Contains(r.Body, "overloaded") && r.Header.Get("Retry-After") != "":
						refused.Add(1)
					default:
						t.Errorf("%d %s", r.Status, r.Body)
					}
				})
			}
			nodetest.Eventually(t, "the seven that are too many are refused", func() bool { return refused.Load() == 7 })
			wantValue(t, c.Get(entry, docs(stored)), stored)
			release()
			waiting.Wait()
			if answered.Load() != 5 || c.Books(entry).Refused != 7 {
				t.Errorf("%d answered, %d refused in the books", answered.Load(), c.Books(entry).Refused)
			}
		})
	}
}

// A write is seen at once through every node, also through one where clients
// wait for an older load of the key.
func TestAWriteIsSeenWhileAnOlderLoadIsWaitedFor(t *testing.T) {
	c := nodetest.Start(t, 3)
	for i, writer := range c.Nodes {
		slow := c.KeyOf(c.Nodes[1], i)
		release := c.Origin.Hold()
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() {
				if r := c.Get(c.Nodes[0], docs(slow)); r.Status != http.StatusOK {
					t.Errorf("%d %s", r.Status, r.Body)
				}
			})
		}
		nodetest.Eventually(t, "they wait", func() bool { return c.Origin.Loads(slow) == 1 && callsTo(c.Nodes[0], c.Nodes[1]) == 1 })
		if r := c.Do(writer, http.MethodPut, docs(slow), fmt.Sprint("put ", i)); r.Status != http.StatusCreated {
			t.Errorf("put: %d %s", r.Status, r.Body)
		}
		for _, n := range c.Nodes {
			if r := c.Get(n, docs(slow)); r.Body != fmt.Sprint("put ", i) {
				t.Errorf("through %s: %d %q", n.ID, r.Status, r.Body)
			}
		}
		release()
		waiting.Wait()
	}
}
