package cluster_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/cluster"
	"kring/peers"
)

// tagged has the origin give each value its key as a tag.
func tagged(_ context.Context, l *cache.Load) (cache.Loaded, error) {
	a := loaded([]byte("v"))
	a.Entry.Tags = []string{l.Key.Key}
	return a, nil
}

func TestAPurgeReachesEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		c.origin.answers(tagged)
		keys := []string{c.key(0, 0), c.key(0, 1), c.key(0, 2)}
		kept := c.key(1, 2)
		fill := func() {
			t.Helper()
			for _, key := range append(keys, kept) {
				if _, err := c.get(t.Context(), 0, key); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.nodes[0].Put(t.Context(), &cache.Request{Key: kv(keys[1])}); err != nil {
				t.Fatal(err)
			}
		}
		entries := func(what string, want ...int64) {
			t.Helper()
			for i, n := range c.nodes {
				if got := n.Stats().Entries; got != want[i] {
					t.Errorf("%s: n%d has %d entries, want %d", what, i, got, want[i])
				}
			}
		}
		fill()
		entries("before", 1, 2, 2)
		if err := c.nodes[0].PurgeTags(t.Context(), "docs", keys); err != nil {
			t.Error(err)
		}
		entries("a purge by tags", 0, 1, 1)
		fill()
		if err := c.nodes[0].Purge(t.Context(), "docs"); err != nil {
			t.Error(err)
		}
		entries("a purge", 0, 1, 0)
	})
}

func TestPurgeNamesTheNodesThatDidNotConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 4)
		if err := c.nodes[0].Purge(t.Context(), "kv"); err != nil {
			t.Error(err)
		}
		release := c.hold(1)
		c.kill(2) // its memory is gone, which is as good
		err := c.nodes[0].PurgeTags(t.Context(), "docs", []string{"a", "b"})
		var unconfirmed *cluster.UnconfirmedError
		var known *cache.Error
		if !errors.Is(err, cache.ErrWriteUnconfirmed) || !errors.As(err, &unconfirmed) || !errors.As(err, &known) {
			t.Fatal(err)
		}
		if !slices.Equal(unconfirmed.Nodes, []string{"n1"}) || known.Detail != "not confirmed by n1" || !strings.Contains(err.Error(), known.Detail) {
			t.Errorf("%v: %v", unconfirmed.Nodes, err)
		}
		n := c.nodes[3]
		if len(n.changes) != 2 || n.changes[0].Op != peers.OpPurge || n.changes[0].Key.Group != "kv" || !slices.Equal(n.changes[1].Tags, []string{"a", "b"}) {
			t.Errorf("n3 dropped %+v", n.changes)
		}
		release()
	})
}

// A process that is just ending may take one more connection, and breaks it.
func TestPurgeWhileAMemberEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended, ending atomic.Bool
		c := start(t, 3, func(i int, o *options) {
			dial := o.peers.Dial
			o.peers.Dial = func(ctx context.Context, to string) (net.Conn, error) {
				if i == 2 && ended.Load() || i == 0 && to == host(2) && ending.Swap(false) {
					return nil, syscall.ECONNRESET
				}
				return dial(ctx, to)
			}
		})
		c.lossy = true
		ended.Store(true)
		ending.Store(true)
		c.net.Kill(c.nodes[2].host)
		synctest.Wait()
		if err := c.nodes[0].Purge(t.Context(), "kv"); err != nil || ending.Load() {
			t.Errorf("%v, connected again: %v", err, !ending.Load())
		}
	})
}

// A member whose link breaks at each purge is asked three times.
func TestAPurgeIsTriedAgainWhenALinkBreaks(t *testing.T) {
	for _, broken := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := start(t, 2)
			calls := 0
			c.nodes[1].on(func(ctx context.Context, in *peers.Inbound) peers.Reply {
				if calls++; calls > broken {
					return c.nodes[1].Cluster.Answer(ctx, in)
				}
				c.net.Break("n0:1", "n1:1")
				<-ctx.Done()
				return peers.Reply{Err: ctx.Err()}
			})
			err := c.nodes[0].Purge(t.Context(), "kv")
			if confirmed := broken < 3; (err == nil) != confirmed || calls != 3 {
				t.Errorf("%d broken links: %v after %d calls", broken, err, calls)
			}
		})
	}
}

// A call that fails for another reason than the link or the member is not made again.
func TestAPurgeThatCannotBeCalledIsUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		s.replies(peers.Reply{}, cache.ErrDraining)
		var unconfirmed *cluster.UnconfirmedError
		if err := s.Purge(t.Context(), "docs"); !errors.As(err, &unconfirmed) || !slices.Equal(unconfirmed.Nodes, []string{"n1", "n2"}) || len(s.peers.calls()) != 2 {
			t.Errorf("%v, calls of %v", err, s.peers.calls())
		}
		s.replies(peers.Reply{Err: cache.ErrWriteUnconfirmed}, nil)
		if err := s.Purge(t.Context(), "docs"); !errors.Is(err, cache.ErrWriteUnconfirmed) || len(s.peers.calls()) != 4 {
			t.Errorf("%v, calls of %v", err, s.peers.calls())
		}
	})
}

func TestPurgesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		if err := c.nodes[0].Purge(t.Context(), "nope"); !errors.Is(err, cache.ErrUnknownGroup) {
			t.Error(err)
		}
		if err := c.nodes[0].PurgeTags(t.Context(), "nope", []string{"a"}); !errors.Is(err, cache.ErrUnknownGroup) {
			t.Error(err)
		}
		if err := c.nodes[0].PurgeTags(t.Context(), "docs", nil); !errors.Is(err, cache.ErrInternal) {
			t.Error(err)
		}
		c.nodes[0].Cache().Close()
		if err := c.nodes[0].Purge(t.Context(), "docs"); !errors.Is(err, cache.ErrDraining) {
			t.Error(err)
		}
		if err := c.nodes[0].PurgeTags(t.Context(), "docs", []string{"a"}); !errors.Is(err, cache.ErrDraining) {
			t.Error(err)
		}
		if err := c.nodes[0].Delete(t.Context(), kv("k")); !errors.Is(err, cache.ErrDraining) {
			t.Error(err)
		}
		if n := len(c.nodes[1].asked); n != 0 {
			t.Errorf("the other node was asked %d times", n)
		}
	})
}

func TestAPurgeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.nodes[1].on(func(ctx context.Context, _ *peers.Inbound) peers.Reply {
			<-ctx.Done()
			return peers.Reply{Err: ctx.Err()}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		within(t, time.Second, "the purge", func() error {
			if err := c.nodes[0].Purge(ctx, "kv"); !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Error(err)
			}
			return nil
		})
	})
}
