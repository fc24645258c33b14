package peers_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers"
)

// stores has a node store a value for each key, except those that begin with "no".
func (n *node) stores(value func(key string) []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stored = func(key string) (cache.Answer, bool) {
		if strings.HasPrefix(key, "no") {
			return cache.Answer{}, false
		}
		e := &cache.Entry{Value: value(key), ContentType: "text/plain", ETag: `"` + key + `"`, Born: time.Now(), Expires: time.Now().Add(time.Minute)}
		return cache.Answer{Entry: e, Kind: cache.KindHit, OwnerKind: cache.KindHit, Node: n.id}, true
	}
}

func itself(key string) []byte { return []byte(key) }

// Values that have no room in a frame are left out, also a value that fills it alone.
func TestManyGetsAreBoundedByTheFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		for _, test := range []struct {
			name       string
			size, want int // of 40 keys
		}{{"many small", 10, 40}, {"some", 9 << 10, 13}, {"one and a half", 90 << 10, 0}, {"big", 1 << 20, 0}} {
			value := bytes.Repeat([]byte("v"), test.size)
			c.nodes[1].stores(func(string) []byte { return value })
			answered := 0
			for _, a := range c.nodes[0].getMany(t.Context(), 1, numbered("k", 40)...) {
				if a.Entry == nil {
					continue
				}
				if answered++; !bytes.Equal(a.Entry.Value, value) || a.Kind != cache.KindHit || a.Entry.ContentType != "text/plain" {
					t.Errorf("%s: %+v", test.name, a)
				}
			}
			if answered != test.want {
				t.Errorf("%s: %d answered at once, want %d", test.name, answered, test.want)
			}
		}
		c.checkBooks()
	})
}

func numbered(prefix string, n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprint(prefix, i))
	}
	return keys
}

// A panic of the handler leaves out what it had not answered, and is in the log.
func TestManyGetsWhoseHandlerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.nodes[1].stores(func(key string) []byte {
			if key == "bad" {
				panic("told to")
			}
			return []byte(key)
		})
		answers := c.nodes[0].getMany(t.Context(), 1, "good", "bad", "other")
		if len(answers) != 3 || answers[0].Entry == nil || answers[1].Entry != nil || answers[2].Entry != nil {
			t.Errorf("%+v", answers)
		}
		if c.nodes[1].log.Count("panic while a peer's call was served") == 0 {
			t.Error("the panic is not in the log")
		}
		if a, err := c.nodes[0].get(t.Context(), 1, "bad"); err != nil || a.Kind != cache.KindLoad {
			t.Errorf("a get after a panic of the reader: %+v, %v", a, err)
		}
		c.checkBooks()
	})
}

// The books have each key of a batch once, also when the answer comes too late, or not
// at all.
func TestBooksOfManyGets(t *testing.T) {
	for name, trouble := range map[string]func(c *members, cancel func()){
		"the caller leaves": func(c *members, cancel func()) {
			c.net.Hold("n1:1", "n0:1")
			go func() { <-time.After(20 * time.Millisecond); cancel() }()
			go func() { <-time.After(100 * time.Millisecond); c.net.Release("n1:1", "n0:1") }()
		},
		"the owner is silent": func(c *members, _ func()) {
			c.nodes[1].pause()
			go func() { <-time.After(4 * time.Second); c.nodes[1].resume() }()
		},
		"the answer is lost": func(c *members, _ func()) {
			c.net.Hold("n1:1", "n0:1")
			go func() {
				<-time.After(50 * time.Millisecond)
				c.net.Break("n0:1", "n1:1")
				c.net.Release("n1:1", "n0:1")
			}()
		},
		"the owner dies": func(c *members, _ func()) {
			c.net.Hold("n0:1", "n1:1")
			go func() { <-time.After(50 * time.Millisecond); c.nodes[1].kill() }()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, 3)
				c.nodes[1].stores(itself)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				trouble(c, cancel)
				var callers sync.WaitGroup
				for range 3 {
					callers.Go(func() {
						for i, a := range c.nodes[0].getMany(ctx, 1, numbered("key-", 60)...) {
							if a.Entry != nil && string(a.Entry.Value) != fmt.Sprint("key-", i) {
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

// A caller that does not read fills its link. Then the answers that are there at once
// wait on goroutines, as other answers do, and the reader goes on.
func TestAnswersAtOnceWaitForRoomOnTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2, func(_ int, o *peers.Options) { o.MaxFrameValue = 1 << 20 })
		value := bytes.Repeat([]byte("v"), 60<<10)
		for _, n := range c.nodes {
			n.stores(func(string) []byte { return value })
		}
		c.net.Hold("n1:1", "n0:1")
		var callers sync.WaitGroup
		for range 150 { // twice what may be unsent
			callers.Go(func() {
				a, err := c.nodes[0].get(t.Context(), 1, "k")
				if err != nil || !bytes.Equal(a.Entry.Value, value) || a.Kind != cache.KindHit || a.OwnerKind != cache.KindHit {
					t.Errorf("%v, %v", a.Kind, err)
				}
				c.nodes[0].getMany(t.Context(), 1, "k")
			})
		}
		<-time.After(100 * time.Millisecond)
		c.net.Release("n1:1", "n0:1")
		callers.Wait()
		if got := c.nodes[1].times("k"); got != 0 {
			t.Errorf("%d were not answered from what is stored", got)
		}
		c.checkBooks()
	})
}
