package peers_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/peers"
)

// isReady asserts whether a node is, and why not.
func (n *node) isReady(want bool, reason string) {
	n.c.t.Helper()
	if ok, got := n.Ready(); ok != want || !strings.HasPrefix(got, reason) {
		n.c.t.Errorf("%s: ready %v: %s", n.id, ok, got)
	}
}

func named(name string) func(int, *peers.Options) {
	return func(_ int, o *peers.Options) { o.Config.Name = name }
}

func TestANodeThatAllRefuseIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 3)
		c.nodes[2] = c.node(2, named("other"))
		for _, n := range c.nodes {
			n.run()
		}
		<-time.After(20 * time.Second)
		c.nodes[0].isReady(true, "")
		c.nodes[1].isReady(true, "")
		c.nodes[2].isReady(false, "refused by n0: cluster.name is other at n2, kring at n0")

		c.nodes[0].kill()
		<-time.After(5 * time.Second)
		c.nodes[2].isReady(false, "refused by n1: ")
		c.nodes[1].kill()
		<-time.After(5 * time.Second)
		c.nodes[2].isReady(true, "") // no other cluster is left
	})
}

// A cluster that is given another name node by node is one cluster at all
// times: first the new ones are not ready, then the old ones.
func TestOneOfTwoClustersIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		rename := func(i int) {
			c.nodes[i].kill()
			c.nodes[i] = c.node(i, named("other"))
			c.nodes[i].run()
			<-time.After(10 * time.Second)
		}
		rename(2)
		c.nodes[0].isReady(true, "")
		c.nodes[1].isReady(true, "")
		c.nodes[2].isReady(false, "refused by ")
		rename(1)
		c.nodes[0].isReady(false, "refused by n1: ")
		c.nodes[1].isReady(true, "")
		c.nodes[2].isReady(true, "")
		if n := c.nodes[0].log.Count("no longer ready"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		rename(0)
		for _, n := range c.nodes {
			n.isReady(true, "")
		}
	})
}

func TestOneThatIsRefusedDoesNotTakeAReadyNodeOutOfService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.nodes[1].kill()
		c.nodes[1] = c.node(1, named("other"))
		c.nodes[1].run()
		<-time.After(20 * time.Second)
		c.nodes[0].isReady(true, "")
		c.nodes[1].isReady(false, "refused by n0: ")
	})
}
