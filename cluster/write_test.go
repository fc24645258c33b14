package cluster_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/cluster"
	"kring/peers"
)

func TestAWriteFollowsItsKeyWithTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := kv(c.key(0, 0, 1, 2))
		block := make(chan struct{})
		c.nodes[0].on(func(ctx context.Context, in *peers.Inbound) peers.Reply {
			<-block
			return c.nodes[0].Cluster.Answer(context.WithoutCancel(ctx), in)
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			a, err := c.nodes[2].Put(t.Context(), &cache.Request{Key: key, Value: []byte("v"), ID: 4711})
			if err != nil || a.Node != "n1" || !a.Created || string(a.Entry.Value) != "v" {
				t.Errorf("%+v, %v", a, err)
			}
		}()
		synctest.Wait()
		c.net.Kill(c.nodes[0].host)
		close(block)
		c.kill(0)
		<-done
		for _, n := range c.nodes[:2] {
			if len(n.changes) != 1 || n.changes[0].ID != 4711 || string(n.changes[0].Value) != "v" {
				t.Errorf("%s: %+v", n.id, n.changes)
			}
		}
	})
}

// An owner that was paused finds writes in its sockets. They were carried out elsewhere
// since, or given up, and newer ones were acknowledged.
func TestWritesGivenUpDuringAPauseAreNotCarriedOutAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := kv(c.key(0, 0, 1, 2))
		release := c.hold(0)
		var callers sync.WaitGroup
		for id, size := range []int{1, 60 << 10, 60 << 10, 100 << 10} { // one reader's buffer does not hold all
			callers.Go(func() {
				a, err := c.nodes[2].Put(t.Context(), &cache.Request{Key: key, Value: make([]byte, size), ID: uint64(id + 1)})
				if err != nil || a.Node != "n1" {
					t.Errorf("put %d: %+v, %v", id, a, err)
				}
			})
		}
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := c.nodes[1].Delete(ctx, key); !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Error("delete:", err)
			}
		})
		callers.Go(func() {
			var unconfirmed *cluster.UnconfirmedError
			if err := c.nodes[2].Purge(t.Context(), "docs"); !errors.As(err, &unconfirmed) || !slices.Equal(unconfirmed.Nodes, []string{"n0"}) {
				t.Errorf("purge: %v", err)
			}
		})
		callers.Wait()
		synctest.Wait() // nothing is on its way to the sockets any more
		release()
		await(t, "owner back", func() bool { a, err := c.nodes[2].Get(t.Context(), key, false); return err == nil && a.Node == "n0" })
		<-time.After(time.Second)
		if n := c.nodes[0]; len(n.changes) != 0 {
			t.Errorf("%d changes were carried out after all", len(n.changes))
		}
		if n := c.nodes[1]; len(n.changes) != 4+1 {
			t.Errorf("%d changes at the stand-in, want four puts and a purge", len(n.changes))
		}
	})
}

// The link breaks at each put, and nobody knows whether the put happened. As long as its
// owner lives, no other node carries it out.
func TestAWriteStaysWithAnOwnerThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 0, 1, 2)
		breaks := func(ctx context.Context, _ *peers.Inbound) peers.Reply {
			c.net.Break("n0:1", "n2:1")
			<-ctx.Done()
			return peers.Reply{Err: ctx.Err()}
		}
		c.nodes[0].on(breaks)
		for name, write := range map[string]func(ctx context.Context) error{
			"put": func(ctx context.Context) error {
				_, err := c.nodes[2].Put(ctx, &cache.Request{Key: kv(key)})
				return err
			},
			"delete": func(ctx context.Context) error { return c.nodes[2].Delete(ctx, kv(key)) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := write(ctx); !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		if n := c.nodes[1].Stats().PassedOn; n != 0 {
			t.Errorf("another node was asked to pass it on, %d times", n)
		}
		if got := len(c.nodes[0].asked); got < 2 || got > 6 {
			t.Errorf("the owner was asked %d times, want up to three for each", got)
		}
		for _, n := range c.nodes[1:] {
			if len(n.asked) != 0 {
				t.Errorf("%s was asked, too: %+v", n.id, n.asked)
			}
		}
		// A get goes on to the next owner, which passes it on.
		c.nodes[0].on(func(ctx context.Context, in *peers.Inbound) peers.Reply {
			if c.nodes[1].Stats().PassedOn == 0 {
				return breaks(ctx, in)
			}
			return c.nodes[0].Cluster.Answer(ctx, in)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if a, err := c.get(ctx, 2, key); err != nil || a.Node != "n0" || c.nodes[1].Stats().PassedOn != 1 {
			t.Errorf("a get: %+v, %v; %d passed on", a, err, c.nodes[1].Stats().PassedOn)
		}
	})
}

// A conditional write is compared with what the owner has.
func TestConditionsAreComparedByTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := kv(c.key(0, 1))
		put := &cache.Request{Key: key, Value: []byte("v"), IfNoneMatch: []string{"*"}}
		a, err := c.nodes[0].Put(t.Context(), put)
		if err != nil || !a.Created || a.Kind != cache.KindPeer || a.Entry.ETag != cache.ContentETag([]byte("v"), "") {
			t.Errorf("%+v, %v", a, err)
		}
		put.ID = 0
		if _, err := c.nodes[0].Put(t.Context(), put); !errors.Is(err, cache.ErrPreconditionFailed) {
			t.Error(err)
		}
		del := &cache.Request{Key: key, IfMatch: []string{`"other"`}}
		if err := c.nodes[0].DeleteIf(t.Context(), del); !errors.Is(err, cache.ErrPreconditionFailed) {
			t.Error(err)
		}
		del = &cache.Request{Key: key, IfMatch: []string{a.Entry.ETag}}
		if err := c.nodes[0].DeleteIf(t.Context(), del); err != nil {
			t.Error(err)
		}
		if a, err := c.nodes[1].Get(t.Context(), key, false); err != nil || !a.Entry.Negative {
			t.Errorf("%+v, %v", a, err)
		}
	})
}
