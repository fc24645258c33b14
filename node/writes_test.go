package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"kring/node"
	"kring/node/nodetest"
)

// Two concurrent PUTs of one key through two nodes: both are applied one after
// the other, and the last one stays. A write that was merged with the other, or
// lost in a shared flight, would give two answers 201 or a third value.
func TestTwoPutsAtOnceThroughTwoNodes(t *testing.T) {
	c := nodetest.Start(t, 3)
	for i := range 60 {
		path := fmt.Sprintf("/v1/cache/kv/k%d", i)
		values := []string{fmt.Sprint("left ", i), fmt.Sprint("right ", i)}
		statuses := make([]int, 2)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for j := range 2 {
			wg.Go(func() {
				<-start
				statuses[j] = c.Do(c.Nodes[(i+j)%3], http.MethodPut, path, values[j]).Status
			})
		}
		close(start)
		wg.Wait()
		// The first PUT finds no value, the second finds the first one's.
		first, second := 0, 1
		if statuses[0] != http.StatusCreated {
			first, second = 1, 0
		}
		if statuses[first] != http.StatusCreated || statuses[second] != http.StatusNoContent {
			t.Errorf("%s: statuses %v, want one 201 and one 204", path, statuses)
		}
		for _, n := range c.Nodes {
			if r := c.Get(n, path); r.Body != values[second] {
				t.Errorf("%s through %s: %q, but the last one applied was %q", path, n.ID, r.Body, values[second])
			}
		}
	}
}

// A write is answered while a load is in flight. Later requests, at every node,
// never get that load's value, neither while it runs nor after its end. This
// includes loads that another node has started.
func TestWriteDuringALoadThroughEveryNode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		body   string
		status int
		want   string // seen after the write
	}{
		{"PUT", http.MethodPut, "put", http.StatusCreated, "put"},
		{"DELETE", http.MethodDelete, "", http.StatusNoContent, "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := nodetest.Start(t, 3)
			for i := range 9 {
				key := c.KeyOf(c.Nodes[i%3], i)
				c.Origin.Answer(says("old"))
				release := c.Origin.Hold()
				var waited sync.WaitGroup
				waited.Go(func() {
					if r := c.Get(c.Nodes[(i+1)%3], docs(key)); r.Status != http.StatusOK || r.Body != "old" && r.Body != tt.want {
						t.Errorf("who waited already: %d %q", r.Status, r.Body)
					}
				})
				nodetest.Eventually(t, "the load is under way", func() bool { return c.Origin.Loads(key) == 1 })
				// The origin has already chosen the answer that it holds back:
				// the old value.
				if r := c.Do(c.Nodes[(i+2)%3], tt.method, docs(key), tt.body); r.Status != tt.status {
					t.Errorf("%s: %d %s", tt.method, r.Status, r.Body)
				}
				var later sync.WaitGroup
				before := gets(c)
				for _, n := range c.Nodes {
					later.Go(func() {
						if r := c.Get(n, docs(key)); r.Body != tt.want {
							t.Errorf("after the %s, through %s: %d %q", tt.method, n.ID, r.Status, r.Body)
						}
					})
				}
				nodetest.Eventually(t, "all three have asked", func() bool { return gets(c)-before >= 3 })
				c.Origin.Answer(says("new"))
				release()
				waited.Wait()
				later.Wait()
				for _, n := range c.Nodes {
					if r := c.Get(n, docs(key)); r.Body != tt.want {
						t.Errorf("when all is over, through %s: %d %q", n.ID, r.Status, r.Body)
					}
				}
			}
		})
	}
}

func says(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, what) // other checks find a failure
	}
}

// Two nodes each think that the other owns a key. Every request is answered and
// none goes in circles. Nothing is stored where no node acts, and the
// disagreement is counted, and logged once.
func TestNodesThatDisagreeOnAnOwner(t *testing.T) {
	c := nodetest.Start(t, 2, func(i int, cfg *node.Config) {
		// In each node's list the other node owns almost the whole ring.
		peers := append([]string(nil), cfg.Cluster.Peers...)
		peers[1-i] += ";weight=1000"
		cfg.Cluster.Peers, cfg.Cluster.VirtualNodes = peers, 64
	})
	keys := make([]string, 0, 10)
	for i := 0; len(keys) < cap(keys); i++ {
		k := fmt.Sprint("key-", i)
		if c.Nodes[0].Peers().View().Ring.Get(k) == c.Nodes[1].ID && c.Nodes[1].Peers().View().Ring.Get(k) == c.Nodes[0].ID {
			keys = append(keys, k)
		}
	}
	release := c.Origin.Hold()
	defer release()
	before := gets(c)
	var wg sync.WaitGroup
	for i := range 80 {
		wg.Go(func() { wantValue(t, c.Get(c.Nodes[i%2], docs(keys[i/2%len(keys)])), keys[i/2%len(keys)]) })
	}
	nodetest.Eventually(t, "all have asked", func() bool { return gets(c)-before >= 80 })
	release()
	wg.Wait()
	for _, k := range keys {
		for _, n := range c.Nodes {
			// No node would find it where it would be stored.
			if r := c.Do(n, http.MethodPut, "/v1/cache/kv/"+k, "v"); r.Status != http.StatusGatewayTimeout || !strings.Contains(r.Body, "write-unconfirmed") {
				t.Errorf("put through %s: %d %s", n.ID, r.Status, r.Body)
			}
		}
	}
	for _, n := range c.Nodes {
		if s := n.Cluster().Stats(); n.Peers().Stats().Mismatches == 0 || s.NotOwner == 0 || s.PassedOn != 0 {
			t.Errorf("%s: %+v", n.ID, s)
		}
		if b := c.Books(n); b.Entries != 0 {
			t.Errorf("%s has stored %d entries that it does not own", n.ID, b.Entries)
		}
		if told := strings.Count(n.Log(), "another list of members"); told != 1 {
			t.Errorf("%s has told it %d times: %s", n.ID, told, n.Log())
		}
	}
}
