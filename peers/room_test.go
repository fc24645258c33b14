package peers_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers"
)

// room is a peers.Room for so many bytes, in which a caller waits for a second.
type room struct {
	mu    sync.Mutex // guards the rest
	most  int
	taken map[*cache.Entry]int
	used  int
	peak  int
	stray int // gives of values that were not taken

	taking func() // is called after each Take; nil: nothing is
}

func (r *room) Take(e *cache.Entry, n int) bool {
	if r.taking != nil {
		defer r.taking()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.most {
		return false
	}
	r.taken[e] = n
	r.used += n
	r.peak = max(r.peak, r.used)
	return true
}

func (r *room) Wait(ctx context.Context, e *cache.Entry, n int) error {
	for range 100 {
		if r.Take(e, n) {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return cache.ErrOverloaded.With("full")
}

func (r *room) Give(e *cache.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.taken[e]; !ok {
		r.stray++
	}
	r.used -= r.taken[e]
	delete(r.taken, e)
}

func (r *room) inUse() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// withRoom are two nodes, of which the first has so much room; its other node
// has values of a mebibyte.
func withRoom(t *testing.T, most int) (*members, *room, []byte) {
	t.Helper()
	r := &room{most: most, taken: map[*cache.Entry]int{}}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.stray > 0 {
			t.Errorf("%d times room was given back that was not taken, or twice", r.stray)
		}
	})
	c := start(t, 2, func(i int, o *peers.Options) {
		if i == 0 {
			o.Room = r
		}
	})
	value := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
		return cache.Answer{Kind: cache.KindHit, Node: "n1", Entry: &cache.Entry{Value: value, ETag: `"t"`}}, nil
	})
	return c, r, value
}

func TestALargeValueIsChargedUntilItsCallerIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, value := withRoom(t, 10<<20)
		ctx, done := context.WithCancel(t.Context())
		a, err := c.nodes[0].get(ctx, 1, "k")
		if err != nil || !bytes.Equal(a.Entry.Value, value) {
			t.Fatalf("%d bytes, %v", len(a.Entry.Value), err)
		}
		r.mu.Lock()
		if r.taken[a.Entry] != len(value) || len(r.taken) != 1 {
			t.Errorf("%d bytes are charged for the entry, and %d in all", r.taken[a.Entry], r.used)
		}
		r.mu.Unlock()
		done()
		synctest.Wait()
		if r.inUse() != 0 {
			t.Errorf("%d bytes are charged afterwards", r.inUse())
		}
		c.checkBooks()
	})
}

func TestValuesWaitForRoomInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, value := withRoom(t, 2<<20)
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				ctx, done := context.WithTimeout(t.Context(), 20*time.Second)
				defer done()
				a, err := c.nodes[0].get(ctx, 1, "k")
				if err != nil || !bytes.Equal(a.Entry.Value, value) || a.Entry.ETag != `"t"` {
					t.Errorf("%+v, %v", a.Kind, err)
				}
				time.Sleep(10 * time.Millisecond)
			})
		}
		all.Wait()
		synctest.Wait()
		if r.peak > 2<<20 || r.inUse() != 0 {
			t.Errorf("%d bytes were charged at most, %d afterwards", r.peak, r.inUse())
		}
		c.checkBooks()
	})
}

func TestWithoutRoomTheLinkGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r, _ := withRoom(t, 100<<10) // for none of them
		for range 3 {
			if _, err := c.nodes[0].get(t.Context(), 1, "k"); !errors.Is(err, cache.ErrOverloaded) {
				t.Errorf("%v, want overloaded", err)
			}
		}
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindHit, Entry: &cache.Entry{Value: []byte("small")}}, nil
		})
		if a, err := c.nodes[0].get(t.Context(), 1, "k"); err != nil || string(a.Entry.Value) != "small" {
			t.Errorf("a small value over the same link: %v", err)
		}
		if s := c.nodes[0].Stats(); r.inUse() != 0 || s.BrokenFrames != 0 || s.Peers[0].Failed != 0 {
			t.Errorf("%d bytes are charged, %d broken frames, %d failed calls", r.inUse(), s.BrokenFrames, s.Peers[0].Failed)
		}
		c.checkBooks()
	})
}

// The wait for a value ends while the value arrives: the caller leaves, or the other
// node dies. The room is given back once.
func TestAValueThatNobodyWaitsForHasNoRoom(t *testing.T) {
	for _, most := range []int{10 << 20, 100 << 10} {
		for name, end := range map[string]func(c *members, leave func()){
			"the caller leaves":   func(_ *members, leave func()) { leave() },
			"the other node dies": func(c *members, _ func()) { c.net.Kill(c.nodes[1].host) },
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, r, _ := withRoom(t, most)
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					r.taking = sync.OnceFunc(func() { // by the link's reader, before the value
						end(c, leave)
						time.Sleep(time.Millisecond)
					})
					a, err := c.nodes[0].get(ctx, 1, "k")
					if err == nil && a.Node == "n1" {
						t.Error("the value came all the same")
					}
					time.Sleep(3 * time.Second)
					synctest.Wait()
					if r.inUse() != 0 {
						t.Errorf("%d bytes are charged for a value that nobody has", r.inUse())
					}
				})
			})
		}
	}
}

// A call that has waited for room gives it back when its second answer does not need it.
func TestRoomThatWasWaitedForInVainIsGivenBack(t *testing.T) {
	for name, then := range map[string]func(c *members) (cache.Answer, error){
		"an error": func(*members) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindLoad, Node: "n1"}, cache.ErrOriginFailed
		},
		"a small value": func(*members) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindLoad, Node: "n1", Entry: &cache.Entry{Value: []byte("small")}}, nil
		},
		"a larger value": func(*members) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindLoad, Node: "n1", Entry: &cache.Entry{Value: make([]byte, 3<<19)}}, nil
		},
		"the end of the link": func(c *members) (cache.Answer, error) {
			c.net.Break("n0:1", "n1:1")
			return cache.Answer{}, cache.ErrInternal
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r, value := withRoom(t, 1<<20)
				calls := 0
				c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
					if calls++; calls == 1 {
						return cache.Answer{Kind: cache.KindHit, Node: "n1", Entry: &cache.Entry{Value: value}}, nil
					}
					return then(c)
				})
				other := &cache.Entry{}
				if !r.Take(other, 1<<20) {
					t.Fatal("there is no room to begin with")
				}
				time.AfterFunc(5*time.Millisecond, func() { r.Give(other) })
				ctx, done := context.WithTimeout(t.Context(), 10*time.Second)
				_, err := c.nodes[0].get(ctx, 1, "k")
				done()
				synctest.Wait()
				if calls < 2 || r.inUse() != 0 {
					t.Errorf("after %d calls (%v) %d bytes are charged for nothing", calls, err, r.inUse())
				}
			})
		})
	}
}
