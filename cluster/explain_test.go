package cluster_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestExplainNamesTheNodesThatHaveAKeyAndThoseThatCouldNotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2, 0)
		if e := c.nodes[0].Explain(t.Context(), doc(key)); len(e.Copies) != 0 || e.LastLoad != nil || e.Unreachable != nil {
			t.Errorf("before a get: %+v", e)
		}
		if _, err := c.get(t.Context(), 0, key); err != nil {
			t.Fatal(err)
		}
		release := c.hold(2)
		began := time.Now()
		e := c.nodes[0].Explain(t.Context(), doc(key))
		if took := time.Since(began); took > 400*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if e.Owner != "n1" || e.Acting != "n1" || !slices.Equal(e.Owners, []string{"n1", "n2", "n0"}) || e.Group != "docs" || e.Key != key || e.Hash == 0 {
			t.Errorf("%+v", e)
		}
		if len(e.Copies) != 1 || e.Copies[0].Node != "n1" || e.Copies[0].Role != "primary" || e.Copies[0].TTL < 50 || !slices.Equal(e.Unreachable, []string{"n2"}) {
			t.Errorf("%+v, unreachable %v", e.Copies, e.Unreachable)
		}
		if e.LastLoad == nil || e.LastLoad.Endpoint != "a" || e.LastLoad.Status != 200 || e.LastLoad.At.After(began) {
			t.Errorf("last load %+v", e.LastLoad)
		}
		c.awaitOpen(0, 2)
		within(t, quick, "the open circuit", func() error {
			if e := c.nodes[0].Explain(t.Context(), doc(key)); !slices.Equal(e.Unreachable, []string{"n2"}) {
				t.Errorf("unreachable %v", e.Unreachable)
			}
			return nil
		})
		// The owner forgets the value, and remembers the load.
		c.nodes[1].Cache().DropGroup("docs")
		for _, n := range c.nodes[:2] {
			if e := n.Explain(t.Context(), doc(key)); len(e.Copies) != 0 || e.LastLoad == nil || e.LastLoad.Endpoint != "a" {
				t.Errorf("at %s: %+v", n.id, e)
			}
		}
		release()
	})
}

// The newest load is the one that is shown, whichever node made it.
func TestExplainShowsTheNewestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2, 0)
		if _, err := c.get(t.Context(), 0, key); err != nil {
			t.Fatal(err)
		}
		release := c.hold(1)
		c.awaitOpen(0, 1)
		began := time.Now()
		if a, err := c.get(t.Context(), 0, key); err != nil || a.Node != "n2" {
			t.Fatal(a, err)
		}
		if e := c.nodes[0].Explain(t.Context(), doc(key)); e.Owner != "n1" || e.Acting != "n2" || e.LastLoad.At.Before(began) {
			t.Errorf("%+v, load %+v", e, e.LastLoad)
		}
		release()
		c.awaitClosed(0, 1)
		e := c.nodes[0].Explain(t.Context(), doc(key))
		if nodes := []string{e.Copies[0].Node, e.Copies[1].Node}; !slices.Equal(nodes, []string{"n1", "n2"}) || e.LastLoad.At.Before(began) {
			t.Errorf("copies at %v, load %+v", nodes, e.LastLoad)
		}
		// The owner loads the key again.
		if err := c.nodes[0].Delete(t.Context(), doc(key)); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		began = time.Now()
		if a, err := c.get(t.Context(), 0, key); err != nil || a.Node != "n1" {
			t.Fatal(a, err)
		}
		if e := c.nodes[0].Explain(t.Context(), doc(key)); e.LastLoad.At.Before(began) {
			t.Errorf("load %+v", e.LastLoad)
		}
	})
}
