package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kring/cache"
)

// router is a Router that is told who acts, and answers what it is told.
type router struct {
	mu       sync.Mutex
	term     uint64
	self     bool
	forward  func(ctx context.Context, req *cache.Request) (cache.Answer, error)
	forwards int
}

func (r *router) Acts(string) (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term, r.self
}

func (r *router) Forward(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	r.mu.Lock()
	r.forwards++
	forward := r.forward
	r.mu.Unlock()
	return forward(ctx, req)
}

func (r *router) acts(term uint64, self bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term, r.self = term, self
}

func routed(r *router) func(*cache.Options) {
	return func(o *cache.Options) { o.Router = r }
}

func nobody(context.Context, *cache.Request) (cache.Answer, error) {
	return cache.Answer{}, cache.ErrActHere
}

func TestGetThroughAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{}
		f := setup(t, routed(r))
		entry := &cache.Entry{Value: []byte("theirs")}
		r.forward = func(_ context.Context, req *cache.Request) (cache.Answer, error) {
			if req.Op != cache.OpGet || req.Key != doc("k") || !req.OnlyIfCached {
				t.Errorf("%+v", req)
			}
			return cache.Answer{Entry: entry, Kind: cache.KindLoad, Node: "n2", Status: 200}, nil
		}
		a, err := f.Get(t.Context(), doc("k"), true)
		if err != nil || a.Entry != entry || a.Kind != cache.KindPeer || a.OwnerKind != cache.KindLoad || a.Node != "n2" {
			t.Errorf("%+v, %v", a, err)
		}
		r.forward = func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindRefused, Node: "n2"}, cache.ErrOverloaded
		}
		a, err = f.Get(t.Context(), doc("k"), false)
		if !errors.Is(err, cache.ErrOverloaded) || a.Kind != cache.KindPeer || a.OwnerKind != cache.KindRefused {
			t.Errorf("%+v, %v", a, err)
		}
		if s := f.Stats(); s.Peer != 2 || s.Gets != 2 || s.Entries != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWriteThroughAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{}
		f := setup(t, routed(r))
		ids := map[uint64]bool{}
		r.forward = func(_ context.Context, req *cache.Request) (cache.Answer, error) {
			ids[req.ID] = true
			return cache.Answer{Node: "n2", Created: req.Op == cache.OpPut}, nil
		}
		a := f.put(kv("k"), "v")
		if !a.Created || a.Node != "n2" || a.Entry.ETag != cache.ContentETag([]byte("v"), "") {
			t.Errorf("%+v", a)
		}
		f.remove(kv("k"))
		if len(ids) != 2 || ids[0] {
			t.Errorf("ids %v", ids)
		}
		if s := f.Stats(); s.Gets != 0 || s.Entries != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestActsHereWhenForwardSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{}
		f := setup(t, routed(r))
		r.forward = func(context.Context, *cache.Request) (cache.Answer, error) {
			r.acts(5, true) // the owner's circuit has opened
			return cache.Answer{}, cache.ErrActHere
		}
		f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
		g := f.get(doc("k"))
		f.wants(g, "k#1", cache.KindHit)
		if !g.StandIn {
			t.Errorf("%+v", g)
		}
		if s := f.Stats(); s.StandIn != 2 || s.Peer != 0 {
			t.Errorf("%+v", s)
		}
		r.acts(0, false)
		f.put(kv("k"), "v")
		f.wants(f.get(kv("k")), "v", cache.KindHit)
	})
}

// Whoever must act without being the one to act by its own view answers, and
// keeps nothing.
func TestActsWithoutOwningTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{forward: nobody}
		f := setup(t, routed(r))
		f.origin.latency = second
		by := f.crowd(10, doc("k"))()
		if len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 9 || by[cache.KindLoad][0].Stored {
			t.Errorf("answers by kind: %v", by)
		}
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
		if _, err := f.Put(t.Context(), &cache.Request{Key: kv("k")}); !errors.Is(err, cache.ErrWriteUnconfirmed) {
			t.Errorf("put: %v", err)
		}
		// Its waiters gone, such a load is wanted by nobody, and joined by nobody.
		ctx, cancel := context.WithTimeout(t.Context(), second/2)
		defer cancel()
		f.wantsError(f.getCtx(ctx, doc("k")), cache.ErrOriginTimeout, cache.KindJoined)
		f.wants(f.get(doc("k")), "k#4", cache.KindLoad)
		if s := f.Stats(); s.Entries != 0 {
			t.Errorf("%d entries", s.Entries)
		}
	})
}

func TestEntriesOfAnotherTermAreNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{self: true, term: 1}
		f := setup(t, routed(r))
		f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
		f.put(kv("k"), "v")
		r.acts(2, true)
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
		f.wantsNothing(f.get(kv("k")), cache.KindHit)
		f.wants(f.get(doc("k")), "k#2", cache.KindHit)
		if s := f.Stats(); s.Entries != 1 {
			t.Errorf("%d entries", s.Entries)
		}
	})
}

func TestLoadOfAnotherTermIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{self: true, term: 1}
		f := setup(t, routed(r))
		f.origin.latency = second
		first := f.crowd(1, doc("k"))
		synctest.Wait()
		r.acts(2, true)
		second := f.crowd(2, doc("k"))
		synctest.Wait()
		r.acts(3, true)
		third := f.crowd(1, doc("k"))
		one := func(by map[cache.Kind][]got, kind cache.Kind) got {
			t.Helper()
			if len(by[kind]) == 0 {
				t.Fatalf("no answer of kind %d among %v", kind, by)
			}
			return by[kind][0]
		}
		f.wants(one(first(), cache.KindLoad), "k#1", cache.KindLoad)
		f.wants(one(second(), cache.KindLoad), "k#2", cache.KindLoad)
		f.wants(one(third(), cache.KindJoined), "k#2", cache.KindJoined)
		f.wants(f.get(doc("k")), "k#2", cache.KindHit)
	})
}

func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{self: true}
		f := setup(t, routed(r))
		serve := func(ctx context.Context, key cache.Key, only bool) got {
			a, err := f.Serve(ctx, &cache.Request{Op: cache.OpGet, Key: key, OnlyIfCached: only})
			return got{a, err}
		}
		settle := func(g got, delivered bool) { f.Settle(g.OwnerKind, delivered) }
		ctx := t.Context()

		g := serve(ctx, doc("k"), true)
		f.wantsError(g, cache.ErrNotCached, cache.KindRefused)
		settle(g, true)
		g = serve(ctx, doc("k"), false)
		f.wants(g, "k#1", cache.KindLoad)
		settle(g, true)
		g = serve(ctx, doc("k"), true)
		f.wants(g, "k#1", cache.KindHit)
		settle(g, true)
		settle(g, false) // an answer that was not delivered is the asker's abandoned one
		g = serve(ctx, doc("lost"), false)
		f.wants(g, "lost#1", cache.KindLoad)
		settle(g, false)

		// One that the asker cancels is none, and its load a refresh.
		f.origin.latency = second
		cancelled, cancel := context.WithCancel(ctx)
		c := make(chan got)
		go func() { c <- serve(cancelled, doc("cancelled"), false) }()
		synctest.Wait()
		cancel()
		g = <-c
		f.wantsError(g, context.Canceled, cache.KindNone)
		settle(g, true)
		pass(second)

		s := f.Stats()
		want := cache.Stats{Served: 3, ServedHits: 1, ServedLoads: 1, ServedRefused: 1}
		if s.Served != want.Served || s.ServedHits != want.ServedHits || s.ServedLoads != want.ServedLoads || s.ServedRefused != want.ServedRefused || s.Refreshes != 2 || s.Gets != 0 {
			t.Errorf("%+v", s)
		}

		for key, want := range map[cache.Key]error{
			kv("\x00"): cache.ErrBadKey, {Group: "nope", Key: "k"}: cache.ErrUnknownGroup,
		} {
			f.wantsError(serve(ctx, key, false), want, cache.KindNone)
		}
		if _, err := f.Serve(ctx, &cache.Request{Op: 99, Key: kv("k")}); !errors.Is(err, cache.ErrInternal) {
			t.Error(err)
		}
		// It never forwards.
		r.acts(0, false)
		f.wantsError(serve(ctx, doc("k"), false), cache.ErrActHere, cache.KindNone)
		if _, err := f.Serve(ctx, &cache.Request{Op: cache.OpDelete, Key: kv("k")}); !errors.Is(err, cache.ErrActHere) {
			t.Error(err)
		}
		if r.forwards != 0 {
			t.Errorf("%d forwards", r.forwards)
		}
	})
}

func TestServeAsAStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, routed(&router{self: true, term: 3}))
		a, err := f.Serve(t.Context(), &cache.Request{Op: cache.OpGet, Key: doc("k")})
		f.Settle(a.Kind, true)
		if s := f.Stats(); err != nil || s.StandIn != 1 || s.ServedLoads != 1 || !a.StandIn {
			t.Errorf("%+v, %+v, %v", a, s, err)
		}
	})
}

func TestOnlyIfCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		only := func() got {
			a, err := f.Get(t.Context(), doc("k"), true)
			return got{a, err}
		}
		f.wantsError(only(), cache.ErrNotCached, cache.KindRefused)
		f.get(doc("k"))
		f.wants(only(), "k#1", cache.KindHit)
		pass(10 * second)
		f.wants(only(), "k#1", cache.KindStale)
		pass(second)
		if n := f.origin.loads("k"); n != 1 {
			t.Errorf("%d loads", n)
		}
		pass(10 * second)
		f.wantsError(only(), cache.ErrNotCached, cache.KindRefused)
	})
}

func TestGetsThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		for key, want := range map[cache.Key]error{
			{Group: "nope", Key: "k"}:            cache.ErrUnknownGroup,
			doc(""):                              cache.ErrBadKey,
			kv(""):                               cache.ErrBadKey,
			kv("a\x00b"):                         cache.ErrBadKey,
			kv("a\u0085b"):                       cache.ErrBadKey,
			doc("\xc3\x28"):                      cache.ErrBadKey,
			doc(strings.Repeat("k", 1024) + "k"): cache.ErrKeyTooLong,
		} {
			f.wantsError(f.get(key), want, cache.KindNone)
			if err := f.CheckKey(key); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", key.Key, err, want)
			}
		}
		if s := f.Stats(); s.Gets != 0 {
			t.Errorf("%d gets", s.Gets)
		}
		for _, key := range []string{".", "..", "a/b", "//a", "a b", "a+b", "a%2Fb", "%", "#", "?", "�", "🔑", strings.Repeat("k", 1024)} {
			f.put(kv(key), key)
			f.wants(f.get(kv(key)), key, cache.KindHit)
		}
	})
}

func TestKeyPatternAnswersWithoutALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.KeyPattern = "user:[0-9]+|top" }))
		f.wants(f.get(doc("user:1")), "user:1#1", cache.KindLoad)
		f.wants(f.get(doc("top")), "top#1", cache.KindLoad)
		for _, key := range []string{"user:", "xuser:1", "user:1x", "topx"} {
			f.wantsNothing(f.get(doc(key)), cache.KindHit)
			a, err := f.Serve(t.Context(), &cache.Request{Op: cache.OpGet, Key: doc(key)})
			f.wantsNothing(got{a, err}, cache.KindHit)
		}
		if s := f.Stats(); s.Loads != 2 || s.Negative != 4 {
			t.Errorf("%+v", s)
		}
	})
}

func TestLoadsOfNewKeysAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { short(g); g.NewKeyRate = 10 }))
		f.get(doc("known"))
		pass(20 * second)
		refused := 0
		for i := range 100 {
			if g := f.get(doc(fmt.Sprint(i))); g.err != nil {
				f.wantsError(g, cache.ErrOverloaded, cache.KindRefused)
				refused++
			}
		}
		if refused != 90 {
			t.Errorf("%d refused", refused)
		}
		f.wants(f.get(doc("known")), "known#2", cache.KindLoad)
	})
}

// Not in the store is not the same as never seen: a key that was evicted,
// purged or PUT once is none of a flood.
func TestKeysThatAreGoneAreNotNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.NewKeyRate = 2 }))
		f.put(doc("put"), "v")
		f.get(doc("loaded"))
		f.origin.set(0, missing)
		f.get(doc("missing"))
		f.origin.set(0, counting)
		f.DropGroup("docs")
		f.wantsError(f.get(doc("new")), cache.ErrOverloaded, cache.KindRefused)
		f.wants(f.get(doc("put")), "put#1", cache.KindLoad)
		f.wants(f.get(doc("loaded")), "loaded#2", cache.KindLoad)
		f.wants(f.get(doc("missing")), "missing#2", cache.KindLoad)
	})
}

func TestGetMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = second
		f.get(doc("1"))
		keys := []string{"", "1"}
		for i := range 500 {
			keys = append(keys, fmt.Sprint(i%250))
		}
		results := f.GetMany(t.Context(), "docs", keys, nil)
		if len(results) != len(keys) || !errors.Is(results[0].Err, cache.ErrBadKey) {
			t.Fatalf("%d results, first %+v", len(results), results[0])
		}
		for i, r := range results[1:] {
			if want := keys[i+1] + "#1"; r.Err != nil || string(r.Entry.Value) != want {
				t.Errorf("%+v, want %s", r, want)
			}
		}
		for _, r := range f.GetMany(t.Context(), "nope", []string{"a", "b"}, nil) {
			if !errors.Is(r.Err, cache.ErrUnknownGroup) {
				t.Error(r.Err)
			}
		}
		if s := f.Stats(); s.Gets != 502 || f.origin.total() != 250 {
			t.Errorf("%d gets, %d loads", s.Gets, f.origin.total())
		}
	})
}

func TestCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		if cp, ok := f.Copy(doc("k")); ok || cp.Node != "n1" || cp.LastLoad != nil {
			t.Errorf("%+v", cp)
		}
		f.origin.latency = second
		f.get(doc("k"))
		pass(10 * second)
		cp, ok := f.Copy(doc("k"))
		if !ok || cp.Role != "primary" || cp.Age != 10 || cp.TTL != 50 || cp.Version == "" || cp.LastLoad.Endpoint != "a" || cp.LastLoad.Millis != 1000 {
			t.Errorf("%+v, %+v", cp, cp.LastLoad)
		}
		f.put(kv("k"), "v")
		if cp, ok := f.Copy(kv("k")); !ok || !cp.Forever || cp.TTL != 0 {
			t.Errorf("%+v", cp)
		}
	})
}

// The failure of a load that was made for a node which nobody confirmed as the
// one to act is not remembered: the node that acts asks for itself.
func TestAFailureIsNotRememberedForANodeThatDoesNotAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{forward: nobody}
		f := setup(t, routed(r))
		f.origin.set(0, failing)
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
		r.acts(0, true)
		f.origin.set(0, counting)
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
	})
}
