package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// keysWithState is how many keys have a state.
func (c *Cache) keysWithState() (n int) {
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		n += len(s.keys)
		s.mu.Unlock()
	}
	return n
}

// newCache builds a Cache that is closed when the test is over.
func newCache(t *testing.T, o Options) *Cache {
	t.Helper()
	o.Node, o.Config = "n1", DefaultConfig()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// plainCache has the group kv.
func plainCache(t *testing.T, o Options) *Cache {
	o.Groups = []GroupConfig{{Name: "kv"}}
	return newCache(t, o)
}

// loadingCache has the group docs, whose loads take a second.
func loadingCache(t *testing.T) *Cache {
	g := DefaultGroupConfig("docs")
	g.Origin = OriginConfig{Pool: "docs", Path: "/{key}"}
	return newCache(t, Options{Groups: []GroupConfig{g}, Loader: LoaderFunc(func(ctx context.Context, l *Load) (Loaded, error) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return Loaded{}, ctx.Err()
		}
		if l.Key.Key == "fails" {
			return Loaded{}, ErrOriginFailed
		}
		return Loaded{Entry: &Entry{Value: []byte("v")}, Freshness: Unsaid}, nil
	})})
}

func TestAKeyWithoutLoadsWritesAndWaitersIsForgotten(t *testing.T) {
	read := func(t *testing.T, c *Cache, key string, term Term, wait time.Duration) {
		g, err := c.Group("docs")
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		r := g.Read(key, false)
		_, _ = r.Answer(ctx, term) // some of the gets fail
	}
	begin := func(t *testing.T, c *Cache, op Op, key string) *Write {
		req := Request{Op: op, Key: Key{Group: "docs", Key: key}}
		if err := c.CheckWrite(&req); err != nil {
			t.Fatal(err)
		}
		w, err := c.BeginWrite(context.Background(), &req, OwnerTerm)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	commit := func(t *testing.T, w *Write) {
		if _, err := w.Commit(context.Background()); err != nil {
			t.Error(err)
		}
	}
	for name, story := range map[string]func(t *testing.T, c *Cache){
		"a load":              func(t *testing.T, c *Cache) { read(t, c, "k", OwnerTerm, time.Minute) },
		"a load that fails":   func(t *testing.T, c *Cache) { read(t, c, "fails", OwnerTerm, time.Minute) },
		"a load that is left": func(t *testing.T, c *Cache) { read(t, c, "k", OwnerTerm, time.Millisecond) },
		"a load that nothing needs": func(t *testing.T, c *Cache) {
			read(t, c, "k", Unowned, time.Millisecond)
		},
		"a load, and the next one": func(t *testing.T, c *Cache) {
			go read(t, c, "k", OwnerTerm, time.Minute)
			synctest.Wait()
			commit(t, begin(t, c, OpDelete, "k"))
			read(t, c, "k", OwnerTerm, time.Minute)
		},
		"a load, and a next one that finds a value": func(t *testing.T, c *Cache) {
			go read(t, c, "k", OwnerTerm, time.Minute)
			synctest.Wait()
			commit(t, begin(t, c, OpDelete, "k"))
			go read(t, c, "k", OwnerTerm, time.Minute)
			synctest.Wait()
			commit(t, begin(t, c, OpPut, "k"))
		},
		"a load, and a next one that is left": func(t *testing.T, c *Cache) {
			go read(t, c, "k", OwnerTerm, time.Minute)
			synctest.Wait()
			commit(t, begin(t, c, OpDelete, "k"))
			read(t, c, "k", OwnerTerm, time.Millisecond)
		},
		"a write": func(t *testing.T, c *Cache) { commit(t, begin(t, c, OpPut, "k")) },
		"a write that is abandoned": func(t *testing.T, c *Cache) {
			begin(t, c, OpPut, "k").Abandon()
		},
		"a write whose time is over": func(t *testing.T, c *Cache) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := begin(t, c, OpPut, "k").Commit(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if _, err := c.BeginWrite(ctx, &Request{Op: OpPut, Key: Key{Group: "docs", Key: "k"}}, OwnerTerm); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		},
		"a write whose condition does not hold": func(t *testing.T, c *Cache) {
			req := Request{Op: OpPut, Key: Key{Group: "docs", Key: "k"}, IfMatch: []string{"*"}}
			if _, err := c.BeginWrite(t.Context(), &req, OwnerTerm); !errors.Is(err, ErrPreconditionFailed) {
				t.Error(err)
			}
		},
		"a write during a load": func(t *testing.T, c *Cache) {
			go read(t, c, "k", OwnerTerm, time.Minute)
			synctest.Wait()
			w := begin(t, c, OpPut, "k")
			time.Sleep(time.Minute)
			commit(t, w)
		},
		"a load during a write": func(t *testing.T, c *Cache) {
			w := begin(t, c, OpPut, "k")
			go read(t, c, "k", OwnerTerm, time.Minute)
			synctest.Wait()
			commit(t, w)
		},
		"a get at another node, during a load and a write": func(t *testing.T, c *Cache) {
			g, err := c.Group("docs")
			if err != nil {
				t.Fatal(err)
			}
			r := g.Read("k", false)
			e := r.Elsewhere()
			if err := e.Loading(1, true); err != nil {
				t.Error(err)
			}
			w := begin(t, c, OpPut, "k")
			read(t, c, "k", OwnerTerm, time.Minute)
			w.Abandon()
			if n := c.keysWithState(); n != 1 {
				t.Errorf("%d keys while a get waits at another node", n)
			}
			e.End()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := loadingCache(t)
				story(t, c)
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := c.keysWithState(); n != 0 {
					t.Errorf("%d keys have a state", n)
				}
			})
		})
	}
}

// A get whose time ends just when its load lands takes the load's answer, because the
// load has counted the get as one of those that it answers.
func TestAGetWhoseTimeEndsAsItsLoadLandsIsAnswered(t *testing.T) {
	c := plainCache(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &flight{landed: true, done: make(chan struct{}), out: outcome{entry: &Entry{}, paid: true}}
	close(f.done)
	for range 100 { // select takes one of two ways
		if a, err := c.stripes[0].wait(ctx, f, true); err != nil || a.Kind != KindLoad || a.Entry != f.out.entry {
			t.Fatalf("%+v, %v", a, err)
		}
	}
}

// A refresh looks again under the lock: by then the entry may be new, or gone.
func TestARefreshThatIsNoLongerDueStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := loadingCache(t)
		g, err := c.Group("docs")
		if err != nil {
			t.Fatal(err)
		}
		r := g.Read("k", false)
		if r.Key() != (Key{Group: "docs", Key: "k"}) || r.OnlyIfCached() || g.Name() != "docs" {
			t.Errorf("%+v", r)
		}
		r.refresh(OwnerTerm)
		if n := c.keysWithState(); n != 0 {
			t.Error("it loads a key that is not stored")
		}
		if _, err := r.Answer(t.Context(), OwnerTerm); err != nil {
			t.Fatal(err)
		}
		r.refresh(OwnerTerm)
		if n := c.keysWithState(); n != 0 {
			t.Error("it loads a value that is fresh")
		}
		time.Sleep(70 * time.Second)
		r.refresh(OwnerTerm)
		r.refresh(OwnerTerm) // one runs
		if n := c.keysWithState(); n != 1 {
			t.Errorf("%d keys are loaded, want one that is stale", n)
		}
	})
}

func TestFindLooksAtTheTermOfAnEntry(t *testing.T) {
	for _, row := range []struct {
		what       string
		stored, by Term
		found      bool
		stays      bool
	}{
		{"the owner's", OwnerTerm, OwnerTerm, true, true},
		{"a stand-in's", 3, 3, true, true},
		{"of an earlier term", 3, 4, false, false},
		{"the owner's, for a stand-in", OwnerTerm, 1, false, false},
		{"of a later term", 4, 3, false, true},
		{"a stand-in's, for the owner", 4, OwnerTerm, false, true},
		{"for a node that is not confirmed", OwnerTerm, Unowned, false, true},
		{"a stand-in's, for a node that is not confirmed", 4, Unowned, false, true},
	} {
		for _, negative := range []bool{false, true} {
			s := newStore(DefaultConfig())
			key := Key{Group: "g", Key: "k"}
			h := s.hash(key.Key)
			e := &Entry{Term: row.stored, Negative: negative}
			s.put(h, key, e)
			if got := s.find(h, key, row.by); (got == e) != row.found || !row.found && got != nil {
				t.Errorf("an entry %s: found %v, want %v", row.what, got, row.found)
			}
			if stays := s.get(h, key) == e; stays != row.stays {
				t.Errorf("an entry %s: stays %v, want %v", row.what, stays, row.stays)
			}
			s.check(t)
		}
	}
	s := newStore(DefaultConfig())
	if e := s.find(1, Key{Group: "g", Key: "k"}, OwnerTerm); e != nil {
		t.Errorf("%+v", e)
	}
}
