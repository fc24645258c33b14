package peers_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers"
)

// stores has a node store a value for each key, but for those that begin with
// "no".
func (n *node) stores(value func(key string) []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stored = func(key string) (cache.Answer, bool) {
		if strings.HasPrefix(key, "no") {
			return cache.Answer{}, false
		}
		e := &cache.Entry{Value: value(key), ContentType: "text/plain", ETag: `"` + key + `"`, Born: time.Now(), TTL: time.Minute}
		return cache.Answer{Entry: e, Kind: cache.KindHit, OwnerKind: cache.KindHit, Node: n.id}, true
	}
}

func itself(key string) []byte { return []byte(key) }

// getMany is what cache.Cache does with a batch: it asks for what has no answer
// once more, by itself.
func (n *node) getMany(ctx context.Context, keys []string) (answered int, answers []cache.Answer) {
	answers = n.ForwardMany(ctx, "g", keys)
	for i, a := range answers {
		if a.Entry != nil {
			answered++
			n.mu.Lock()
			n.peer++
			n.mu.Unlock()
			continue
		}
		a, err := n.get(ctx, keys[i])
		if err == nil {
			answers[i] = a
		}
	}
	return answered, answers
}

func numbered(prefix string, n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprint(prefix, i))
	}
	return keys
}

func TestManyGetsAreOneCallToEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		for _, n := range c.nodes {
			n.stores(itself)
		}
		keys := slices.Concat(numbered("key-", 200), numbered("no-", 20))
		n := c.nodes[0]
		answered, answers := n.getMany(t.Context(), keys)
		want := 0
		for i, a := range answers {
			owner := n.View().Ring.Get(keys[i])
			stored := owner != n.id && !strings.HasPrefix(keys[i], "no")
			if stored {
				want++
			}
			if a.Node != owner || string(a.Entry.Value) != keys[i] || (owner != n.id) != (a.Kind == cache.KindPeer) {
				t.Errorf("%s of %s: %+v", keys[i], owner, a)
			}
			if stored && (a.OwnerKind != cache.KindHit || a.Entry.ContentType != "text/plain" || a.Entry.ETag != `"`+keys[i]+`"`) {
				t.Errorf("%s: %+v", keys[i], a)
			}
		}
		if answered != want {
			t.Errorf("%d answered at once, want %d", answered, want)
		}
		calls := 0
		for _, p := range n.Stats().Peers {
			calls += int(p.Calls)
		}
		missed := 0
		for _, key := range numbered("no-", 20) {
			if n.View().Ring.Get(key) != n.id {
				missed++
			}
		}
		if calls != 2+missed {
			t.Errorf("%d calls for two nodes and %d keys that they had not stored", calls, missed)
		}
		c.checkBooks()
	})
}

// What has no room in a frame is left out, also a value that fills it alone.
func TestManyGetsAreBoundedByTheFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		for name, size := range map[string]int{"many small": 10, "some": 9 << 10, "one and a half": 90 << 10, "big": 1 << 20} {
			value := bytes.Repeat([]byte("v"), size)
			c.nodes[1].stores(func(string) []byte { return value })
			c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
				return cache.Answer{Entry: &cache.Entry{Value: value}, Kind: cache.KindHit}, nil
			})
			var keys []string
			for i := 0; len(keys) < 40; i++ {
				if key := fmt.Sprintf("%s %d", name, i); c.nodes[0].View().Ring.Get(key) == "n1" {
					keys = append(keys, key)
				}
			}
			answered, answers := c.nodes[0].getMany(t.Context(), keys)
			for i, a := range answers {
				if a.Entry == nil || !bytes.Equal(a.Entry.Value, value) {
					t.Errorf("%s: %s: %+v", name, keys[i], a)
				}
			}
			if want := map[string]int{"many small": 40, "some": 13}[name]; answered != want {
				t.Errorf("%s: %d answered at once, want %d", name, answered, want)
			}
		}
		// Keys that fill more than a frame make more calls.
		long := numbered(strings.Repeat("k", 4<<10), 100)
		c.nodes[1].stores(itself)
		want := 0
		for _, key := range long {
			if c.nodes[0].View().Ring.Get(key) == "n1" {
				want++
			}
		}
		if answered, _ := c.nodes[0].getMany(t.Context(), long); answered != want {
			t.Errorf("%d of %d long keys", answered, want)
		}
		c.checkBooks()
	})
}

// Two nodes with different lists do not agree on who acts: the one asked leaves
// out what is not its own, or what it cannot tell of.
func TestManyGetsOfANodeThatDoesNotActForThemAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		keys := []string{c.key(1), c.key(1)}
		c.nodes[1].mu.Lock()
		c.nodes[1].stored = func(string) (cache.Answer, bool) { return cache.Answer{}, false } // as cache.Cache says of them
		c.nodes[1].mu.Unlock()
		if answered, answers := c.nodes[0].getMany(t.Context(), keys); answered != 0 || answers[0].Node != "n1" || answers[1].Node != "n1" {
			t.Errorf("%d, %+v", answered, answers)
		}
		c.nodes[1].mu.Lock()
		c.nodes[1].stored = func(string) (cache.Answer, bool) { panic("told to") }
		c.nodes[1].mu.Unlock()
		if answered, answers := c.nodes[0].getMany(t.Context(), keys); answered != 0 || answers[1].Node != "n1" {
			t.Errorf("%d, %+v", answered, answers)
		}
		if c.nodes[1].log.Count("panic while a peer's call was served") == 0 {
			t.Error("the panic is not in the log")
		}
		c.checkBooks()
	})
}

// TestBooksOfManyGets: each key of a batch is on the books of who answered it,
// once, also when the answer comes too late, or not at all.
func TestBooksOfManyGets(t *testing.T) {
	for name, trouble := range map[string]func(c *cluster, cancel func()){
		"the caller leaves": func(c *cluster, cancel func()) {
			c.net.Hold("n1:1", "n0:1")
			go func() { <-time.After(20 * time.Millisecond); cancel() }()
			go func() { <-time.After(100 * time.Millisecond); c.net.Release("n1:1", "n0:1") }()
		},
		"the owner is silent": func(c *cluster, _ func()) {
			c.nodes[1].pause()
			go func() { <-time.After(4 * time.Second); c.nodes[1].resume() }()
		},
		"the answer is lost": func(c *cluster, _ func()) {
			c.net.Hold("n1:1", "n0:1")
			go func() {
				<-time.After(50 * time.Millisecond)
				c.net.Break("n0:1", "n1:1")
				c.net.Release("n1:1", "n0:1")
			}()
		},
		"the owner dies": func(c *cluster, _ func()) {
			c.net.Hold("n0:1", "n1:1")
			go func() { <-time.After(50 * time.Millisecond); c.nodes[1].kill() }()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, 3)
				for _, n := range c.nodes {
					n.stores(itself)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				trouble(c, cancel)
				var callers sync.WaitGroup
				for range 3 {
					callers.Go(func() {
						_, answers := c.nodes[0].getMany(ctx, numbered("key-", 60))
						for i, a := range answers {
							if ctx.Err() == nil && (a.Entry == nil || string(a.Entry.Value) != fmt.Sprint("key-", i)) {
								t.Errorf("key-%d: %+v", i, a)
							}
						}
					})
				}
				callers.Wait()
				<-time.After(10 * time.Second)
				c.checkBooks()
			})
		})
	}
}

// An asker that does not read fills its link; what is answered at once then
// waits on goroutines, as any other answer, while the reader goes on.
func TestAnswersAtOnceWaitForRoomOnTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2, func(_ int, o *peers.Options) { o.MaxFrameValue = 1 << 20 })
		value := bytes.Repeat([]byte("v"), 60<<10)
		for _, n := range c.nodes {
			n.stores(func(string) []byte { return value })
		}
		key := c.key(1)
		c.net.Hold("n1:1", "n0:1")
		var callers sync.WaitGroup
		for range 150 { // twice what may be unsent
			callers.Go(func() {
				a, err := c.nodes[0].get(t.Context(), key)
				if err != nil || !bytes.Equal(a.Entry.Value, value) || a.Kind != cache.KindPeer || a.OwnerKind != cache.KindHit {
					t.Errorf("%v, %v", a.Kind, err)
				}
				if answers := c.nodes[0].ForwardMany(t.Context(), "g", []string{key}); answers[0].Entry != nil {
					c.nodes[0].mu.Lock()
					c.nodes[0].peer++
					c.nodes[0].mu.Unlock()
				}
			})
		}
		<-time.After(100 * time.Millisecond)
		c.net.Release("n1:1", "n0:1")
		callers.Wait()
		if got := c.nodes[1].times(key); got != 0 {
			t.Errorf("%d were not answered from what is stored", got)
		}
		c.checkBooks()
	})
}
