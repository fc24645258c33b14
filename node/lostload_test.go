package node_test

import (
	"net/http"
	"sync"
	"testing"

	"kring/node/nodetest"
)

// The owner of a key goes while it loads it, and with it the load that 40
// clients of the other nodes wait for: they get the value all the same, of one
// more load. A write meanwhile is answered by who acts now, and is what is seen
// from then on.
func TestOwnerGoneDuringALoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone func(n *nodetest.Node) (back func())
	}{
		{"killed", func(n *nodetest.Node) func() { n.Kill(); return func() {} }},
		{"hanging", func(n *nodetest.Node) func() { return n.Freeze() }},
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
			// Both others have left the owner by then, or do so with this.
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
