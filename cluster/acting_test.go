package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/internal/testlog"
	"kring/peers"
)

func TestEachKeyIsAnsweredByItsOwnerThroughAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		for _, key := range numbered("key-", 30) {
			owner := c.nodes[0].peers.View().Ring.Get(key)
			for i, n := range c.nodes {
				a, err := c.get(t.Context(), i, key)
				if err != nil || a.Node != owner || string(a.Entry.Value) != key+"#1" {
					t.Fatalf("%s at %s: %+v, %v", key, n.id, a, err)
				}
				want := cache.KindHit
				if i == 0 {
					want = cache.KindLoad
				}
				if a.OwnerKind != want || (a.Kind == cache.KindPeer) != (n.id != owner) {
					t.Errorf("%s at %s: kinds %v, %v", key, n.id, a.Kind, a.OwnerKind)
				}
			}
		}
	})
}

func TestANodeAloneActsForEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 1)
		n := c.nodes[0]
		for _, key := range numbered("key-", 20) {
			if r := n.RouteOf(key); !r.Self || r.Term != cache.OwnerTerm || !r.Holds() {
				t.Errorf("%s: %+v", key, r)
			}
		}
		if a, err := c.get(t.Context(), 0, "k"); err != nil || a.Kind != cache.KindLoad || a.StandIn {
			t.Errorf("%+v, %v", a, err)
		}
		if a, err := n.Put(t.Context(), &cache.Request{Key: kv("k")}); err != nil || !a.Created || a.Node != "n0" {
			t.Errorf("%+v, %v", a, err)
		}
		if e := n.Explain(t.Context(), doc("k")); len(e.Copies) != 1 || e.Acting != "n0" || len(e.Owners) != 1 {
			t.Errorf("%+v", e)
		}
		if err := n.Purge(t.Context(), "docs"); err != nil || n.Stats().Entries != 1 {
			t.Errorf("%v, %d entries", err, n.Stats().Entries)
		}
	})
}

func TestASlowLoadIsWaitedForToTheCallersOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2)
		release := c.origin.hang(key)
		defer release()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.get(ctx, 0, key); !errors.Is(err, cache.ErrOriginTimeout) || time.Since(began) > 2100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		time.AfterFunc(5*time.Second, release)
		if _, err := c.get(ctx, 0, key); err != nil {
			t.Errorf("5 s of loading: %v", err)
		}
		c.nodes[1].on(func(ctx context.Context, in *peers.Inbound) peers.Reply {
			<-ctx.Done()
			return c.nodes[1].Cluster.Answer(ctx, in)
		})
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.nodes[0].Delete(ctx, doc(key)); !errors.Is(err, cache.ErrWriteUnconfirmed) {
			t.Errorf("write: %v", err)
		}
		if n := len(c.nodes[2].asked); n != 0 {
			t.Errorf("a slow request was repeated elsewhere, %d times", n)
		}
	})
}

func TestADeadOwnersKeysAreAnsweredByTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 0, 1, 2)
		if _, err := c.get(t.Context(), 2, key); err != nil {
			t.Fatal(err)
		}
		c.kill(0)
		for range 5 {
			for _, i := range []int{1, 2} {
				a, err := c.get(t.Context(), i, key)
				if err != nil || a.Node != "n1" || !a.StandIn {
					t.Fatalf("at n%d: %+v, %v", i, a, err)
				}
			}
		}
		if n := c.origin.loads(key); n != 2 || c.nodes[2].Stats().Loads != 0 {
			t.Errorf("%d loads, %d at a node that is not the next owner", n, c.nodes[2].Stats().Loads)
		}
		if r := c.nodes[1].RouteOf(key); !r.Self || !r.Term.StandIn() {
			t.Errorf("%+v", r)
		}
	})
}

func TestAHungOwnerCostsOneShortWaitAndIsBackAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 0, 1, 2)
		release := c.hold(0)
		began := time.Now()
		a, err := c.get(t.Context(), 2, key)
		if waited := time.Since(began); err != nil || a.Node != "n1" || waited > 700*time.Millisecond {
			t.Errorf("after %v: %+v, %v", waited, a, err)
		}
		within(t, quick, "the second get", func() error { _, err := c.get(t.Context(), 2, key); return err })
		first := c.nodes[1].RouteOf(key).Term
		release()
		began = time.Now()
		await(t, "owner back", func() bool { a, err := c.get(t.Context(), 2, key); return err == nil && a.Node == "n0" })
		c.awaitClosed(1, 0)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("back after %v", took)
		}
		c.checkBooks()

		release = c.hold(0)
		c.awaitOpen(1, 0)
		if second := c.nodes[1].RouteOf(key).Term; first == 0 || second == first {
			t.Errorf("terms of two outages: %d, %d", first, second)
		}
		release()
	})
}

// Two members are down. The term in which the third one acts for the keys of the first
// changes with each outage of either, in both orders.
func TestATermEndsWithTheOutageOfAnyMemberBefore(t *testing.T) {
	for name, order := range map[string][2]int{"the owner went last": {1, 0}, "the owner went first": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, 3)
				key, stand := c.key(0, 0, 1, 2), c.nodes[2]
				join := make([]func(), 2)
				down := func(i int) { join[i] = c.part(i, 2); c.awaitOpen(2, i) }
				up := func(i int) { join[i](); c.awaitClosed(2, i) }
				down(order[0])
				down(order[1])
				last, seen := cache.Term(0), map[cache.Term]string{0: "the owner's own"}
				for _, back := range []int{0, 1, 0, 1} {
					r := stand.RouteOf(key)
					if before, known := seen[r.Term]; known || !r.Self {
						t.Errorf("acts %v in term %d, which was there before: %s", r.Self, r.Term, before)
					}
					if r.Term <= last {
						t.Errorf("term %d follows term %d", r.Term, last)
					}
					last, seen[r.Term] = r.Term, fmt.Sprintf("before n%d came back", back)
					if again := stand.RouteOf(key).Term; again != r.Term {
						t.Errorf("the term changes by itself: %d, %d", r.Term, again)
					}
					up(back)
					down(back)
				}
				join[0]()
				join[1]()
			})
		})
	}
}

// A stand-in stores a value, the owner comes back and takes a write, and goes again: the
// stand-in's value is from before an acknowledged write.
func TestAStandInForgetsWhatTheOwnerMayHaveOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key, stand := kv(c.key(0, 0, 1, 2)), c.nodes[2]
		back := c.hold(1) // the next owner goes first
		c.awaitOpen(2, 1)
		for i := range 3 {
			release := c.hold(0)
			c.awaitOpen(2, 0)
			a, err := stand.Get(t.Context(), key, false)
			if err != nil || !a.Entry.Negative {
				t.Errorf("outage %d: the stand-in answered with %q, %v", i, a.Entry.Value, err)
			}
			if _, err := stand.Put(t.Context(), &cache.Request{Key: key, Value: []byte("old")}); err != nil {
				t.Error(err)
			}
			if a, err := stand.Get(t.Context(), key, false); err != nil || string(a.Entry.Value) != "old" {
				t.Errorf("the value that the stand-in was given: %+v, %v", a, err)
			}
			release()
			c.awaitClosed(2, 0)
			if a, err := stand.Put(t.Context(), &cache.Request{Key: key, Value: []byte("new")}); err != nil || a.Node != "n0" {
				t.Errorf("%+v, %v", a, err)
			}
		}
		back()
	})
}

func TestNodesThatDisagreeAboutTheRingNeitherDeadlockNorLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each believes that the next one owns nearly everything.
		logs := []*testlog.Buffer{{}, {}, {}}
		c := start(t, 3, func(i int, o *options) {
			o.peers.Config.Peers[(i+1)%3] += ";weight=20"
			o.peers.Log = slog.New(slog.NewTextHandler(logs[i], nil))
		})
		var key string
		for i := 0; key == "" && i < 1000; i++ {
			k := fmt.Sprintf("key-%d", i)
			if c.nodes[0].RouteOf(k).Node == "n1" && c.nodes[1].RouteOf(k).Node == "n2" && c.nodes[2].RouteOf(k).Node == "n0" {
				key = k
			}
		}
		for i, n := range c.nodes {
			a, err := c.get(t.Context(), i, key)
			if err != nil || a.Node != n.id || a.Stored {
				t.Errorf("at %s: %+v, %v", n.id, a, err)
			}
			if s := n.Stats(); s.NotOwner != 2 || n.peers.Stats().Mismatches == 0 {
				t.Errorf("%s: %d times not owner, %d mismatches", n.id, s.NotOwner, n.peers.Stats().Mismatches)
			}
			if n := logs[i].Count("another list of members"); n != 2 {
				t.Errorf("logged %d times, for 2 peers", n)
			}
			r := getMany(t.Context(), t, n.Cluster, "docs", []string{key, key}, time.Minute)
			if r[0].Err != nil || r[0].Node != n.id || r[1].Err != nil || r[1].Node != n.id {
				t.Errorf("a batch at %s: %+v", n.id, r)
			}
			if _, err := n.Put(t.Context(), &cache.Request{Key: kv(key)}); !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Errorf("a put at %s: %v", n.id, err)
			}
		}
	})
}

func TestManyCallersOverBadLinksKeepTheBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3, func(_ int, o *options) { o.docs().TTL = 50 * time.Millisecond })
		var callers sync.WaitGroup
		for i := range 30 {
			callers.Go(func() {
				for round := range 40 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i*40)*time.Millisecond)
					if _, err := c.get(ctx, i%3, c.key(0, (i+round)%3)); err != nil && ctx.Err() == nil {
						t.Errorf("without need: %v", err)
					}
					cancel()
					<-time.After(time.Duration(i+round) * time.Millisecond)
				}
			})
		}
		var release func()
		for i := range 6 {
			<-time.After(150 * time.Millisecond)
			switch i % 3 {
			case 0:
				c.net.Break("n0:1", "n1:1")
			case 1:
				release = c.hold(2)
			case 2:
				release()
			}
		}
		callers.Wait()
	})
}
