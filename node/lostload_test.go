package node_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"kring/node/nodetest"
)

// The owner of a key is killed during a load that 40 clients of the other nodes
// wait for. They still get the value, from one more load. A write meanwhile is
// answered by the node that acts now, and later reads see it.
func TestOwnerGoneDuringALoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone func(n *nodetest.Node) (back func())
	}{
		{"killed", func(n *nodetest.Node) func() { n.Kill(); return func() {} }},
		{"hanging", func(n *nodetest.Node) func() { return n.Hold() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := nodetest.Start(t, 3)
			owner := c.Nodes[0]
			others := c.Others(owner)
			key, written := c.KeyOf(owner, 0), c.KeyOf(owner, 1)
			release := c.Origin.Hold()
			defer release()
			before := gets(c)
			var waiting sync.WaitGroup
			for i := range 40 {
				waiting.Go(func() { wantValue(t, c.Get(others[i%2], docs(key)), key) })
			}
			nodetest.Eventually(t, "all wait for the owner's load", func() bool {
				return c.Origin.Loads(key) == 1 && gets(c)-before >= 40
			})
			back := tt.gone(owner)
			defer back()
			nodetest.Eventually(t, "another node loads it", func() bool { return c.Origin.Loads(key) == 2 })
			// Both other nodes have turned from the owner by now, or do so with
			// this request.
			if r := c.Do(others[0], http.MethodPut, docs(written), "written"); r.Status >= 300 {
				t.Errorf("put: %d %s", r.Status, r.Body)
			}
			for _, n := range others {
				if r := c.Get(n, docs(written)); r.Body != "written" {
					t.Errorf("through %s after the put: %d %q", n.ID, r.Status, r.Body)
				}
			}
			release()
			waiting.Wait()
			if n := c.Origin.Loads(key); n != 2 {
				t.Errorf("%d loads", n)
			}
			for _, n := range others {
				wantValue(t, c.Get(n, docs(key)), key)
			}
		})
	}
}

// Writers write keys of a node that is killed. Each write is answered with 2xx,
// by that node or by the next owner. A read after a write returns that write
// or, once for each key, nothing, because the only copy was lost. It never
// returns an older value.
func TestWritesWhileTheirOwnerIsKilled(t *testing.T) {
	c := nodetest.Start(t, 3)
	owner := c.Nodes[1]
	others := c.Others(owner)
	const writers = 6
	var written [writers]atomic.Int64 // number of each writer's writes
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for w := range writers {
		path := "/v1/cache/kv/" + c.KeyOf(owner, w)
		writing.Go(func() {
			lost := 0
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				value := fmt.Sprint("version ", i)
				if r := c.Do(others[i%2], http.MethodPut, path, value); r.Status != http.StatusCreated && r.Status != http.StatusNoContent {
					t.Errorf("put of %s: %d %s", path, r.Status, r.Body)
				}
				switch r := c.Get(others[(i+1)%2], path); {
				case r.Status == http.StatusNotFound && lost == 0:
					lost++
				case r.Body != value:
					t.Errorf("%s: %d %q after %q was written; lost before: %d", path, r.Status, r.Body, value, lost)
				}
				written[w].Add(1)
			}
		})
	}
	each := func(least int64) func() bool {
		return func() bool {
			for w := range written {
				if written[w].Load() < least {
					return false
				}
			}
			return true
		}
	}
	nodetest.Eventually(t, "all have written", each(5))
	owner.Kill()
	var after int64
	for w := range written {
		after = max(after, written[w].Load())
	}
	nodetest.Eventually(t, "all go on", each(after+20))
	close(stop)
	writing.Wait()
}
