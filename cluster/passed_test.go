package cluster_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers"
)

func TestABrokenLinkBetweenTwoNodesIsBridgedByAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 0, 1, 2)
		join := c.part(2, 0)
		for range 3 {
			if a, err := c.get(t.Context(), 2, key); err != nil || a.Node != "n0" {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		if _, err := c.nodes[2].Put(t.Context(), &cache.Request{Key: kv(key), Value: []byte("v")}); err != nil {
			t.Error("a put:", err)
		}
		if err := c.nodes[2].Delete(t.Context(), kv(key)); err != nil {
			t.Error("a delete:", err)
		}
		if n := c.nodes[1].Stats().PassedOn; n != 5 || len(c.nodes[0].changes) != 2 {
			t.Errorf("%d calls were passed on, %d writes carried out by the owner", n, len(c.nodes[0].changes))
		}
		for _, in := range c.nodes[0].asked {
			if in.Hop != 2 || in.From != "n1" {
				t.Errorf("the owner was called by %s, hop %d", in.From, in.Hop)
			}
		}
		join()
	})
}

// The owner does not hear the node that passes on, and answers the second hop that it
// is not the one to act: so it says to the node that asked.
func TestACallIsPassedOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 0, 1, 2)
		join := c.part(2, 0)
		c.awaitOpen(2, 0)
		c.nodes[0].on(func(context.Context, *peers.Inbound) peers.Reply { return peers.Reply{NotOwner: true} })
		a, err := c.get(t.Context(), 2, key)
		if err != nil || a.Node != "n2" || a.Stored {
			t.Errorf("%+v, %v", a, err)
		}
		if here, there := c.nodes[2].Stats(), c.nodes[1].Stats(); here.NotOwner != 2 || there.PassedOn != 2 || there.NotOwner != 0 {
			t.Errorf("%d times not owner at the entry node, %d at the second; %d passed on", here.NotOwner, there.NotOwner, there.PassedOn)
		}
		if n := len(c.nodes[0].asked); n != 2 {
			t.Errorf("the owner was called %d times", n)
		}
		join()
	})
}

func TestACancelledCallThatWasPassedOnIsInTheBooksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 0, 1, 2)
		join := c.part(2, 0)
		c.awaitOpen(2, 0)
		// The owner has an answer although the caller has gone; then it has none.
		for _, kind := range []cache.Kind{cache.KindHit, cache.KindNone} {
			c.nodes[0].on(func(ctx context.Context, _ *peers.Inbound) peers.Reply {
				<-ctx.Done()
				if kind == cache.KindNone {
					return peers.Reply{Err: ctx.Err()}
				}
				return peers.Reply{Answer: cache.Answer{Kind: kind, Entry: &cache.Entry{}}, Counted: true}
			})
			before := c.nodes[0].timesAsked(cache.OpGet)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, cancel)
			if _, err := c.get(ctx, 2, key); !errors.Is(err, context.Canceled) {
				t.Errorf("%v: %v", kind, err)
			}
			c.checkBooks()
			if n := c.nodes[0].timesAsked(cache.OpGet) - before; n != 1 {
				t.Errorf("the owner was asked %d times", n)
			}
		}
		if n := c.origin.loads(key); n != 0 {
			t.Errorf("%d loads by the node that passed on", n)
		}
		join()
	})
}

// An answer that was passed on is lost on its last way. The owner has it on its books,
// and the caller does not know.
func TestAPassedOnAnswerThatIsLostIsInTheBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3, func(_ int, o *options) { o.cache.Config.MaxValueBytes = 4 << 20 })
		key := kv(c.key(0, 0, 1, 2))
		if _, err := c.nodes[0].Put(t.Context(), &cache.Request{Key: key, Value: make([]byte, 2<<20)}); err != nil {
			t.Fatal(err)
		}
		join := c.part(2, 0)
		c.awaitOpen(2, 0)
		for round := range 3 {
			before := c.nodes[0].Stats().Served
			c.net.Hold("n1:1", "n2:1") // the answer is written in part
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			done := make(chan error)
			go func() { _, err := c.nodes[2].Get(ctx, key, false); done <- err }()
			synctest.Wait()
			if c.nodes[0].Stats().Served == before {
				t.Fatalf("round %d: the owner has not answered", round)
			}
			c.net.Break("n1:1", "n2:1")
			c.net.Release("n1:1", "n2:1")
			if err := <-done; err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			cancel()
			<-time.After(time.Second)
		}
		join()
	})
}
