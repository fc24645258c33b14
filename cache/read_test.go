package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"kring/cache"
)

// A node that must act although nobody has confirmed it answers, and keeps nothing.
func TestAnUnownedNodeKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.actIn(cache.Unowned)
		f.origin.latency = second
		by := f.crowd(10, doc("k"))()
		if len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 9 || by[cache.KindLoad][0].Stored {
			t.Errorf("answers by kind: %v", by)
		}
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
		// When its waiters have left, nothing needs such a load, and no get joins it.
		ctx, cancel := context.WithTimeout(t.Context(), second/2)
		defer cancel()
		f.wantsError(f.getCtx(ctx, doc("k")), cache.ErrOriginTimeout, cache.KindJoined)
		f.wants(f.get(doc("k")), "k#4", cache.KindLoad)
		if s := f.Stats(); s.Entries != 0 {
			t.Errorf("%d entries", s.Entries)
		}
	})
}

func TestAnUnownedNodeLeavesTheStoreAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
		f.actIn(cache.Unowned)
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
		f.origin.set(0, answering(cache.ValueEnded, 0))
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
		f.actIn(cache.OwnerTerm)
		f.wants(f.get(doc("k")), "k#1", cache.KindHit)
	})
}

func TestEntriesOfAnotherTermAreNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.actIn(1)
		f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
		f.put(kv("k"), "v")
		f.actIn(2)
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
		f := setup(t)
		f.actIn(1)
		f.origin.latency = second
		first := f.crowd(1, doc("k"))
		synctest.Wait()
		f.actIn(2)
		second := f.crowd(2, doc("k"))
		synctest.Wait()
		f.actIn(3)
		third := f.crowd(1, doc("k"))
		one := func(by map[cache.Kind][]got, kind cache.Kind) got {
			t.Helper()
			if len(by[kind]) == 0 {
				t.Fatalf("no answer of kind %v among %v", kind, by)
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
		f := setup(t)
		ask := func(ctx context.Context, key cache.Key, only bool) got {
			return f.serveCtx(ctx, cache.Request{Key: key, OnlyIfCached: only})
		}
		deliver := func(g got, delivered bool) { f.Delivered(g.OwnerKind, delivered) }
		ctx := t.Context()

		g := ask(ctx, doc("k"), true)
		f.wantsError(g, cache.ErrNotCached, cache.KindRefused)
		deliver(g, true)
		g = ask(ctx, doc("k"), false)
		f.wants(g, "k#1", cache.KindLoad)
		deliver(g, true)
		g = ask(ctx, doc("k"), true)
		f.wants(g, "k#1", cache.KindHit)
		deliver(g, true)
		deliver(g, false) // the node that asked counts such a get as abandoned
		g = ask(ctx, doc("lost"), false)
		f.wants(g, "lost#1", cache.KindLoad)
		deliver(g, false)

		// A get that its caller cancels is not counted, and its load is a refresh.
		f.origin.latency = second
		cancelled, cancel := context.WithCancel(ctx)
		c := make(chan got)
		go func() { c <- ask(cancelled, doc("cancelled"), false) }()
		synctest.Wait()
		cancel()
		g = <-c
		f.wantsError(g, context.Canceled, cache.KindNone)
		deliver(g, true)
		pass(second)

		s := f.Stats()
		want := cache.Stats{Served: 3, ServedHits: 1, ServedLoads: 1, ServedRefused: 1}
		if s.Served != want.Served || s.ServedHits != want.ServedHits || s.ServedLoads != want.ServedLoads || s.ServedRefused != want.ServedRefused || s.Refreshes != 2 || s.Gets != 0 {
			t.Errorf("%+v", s)
		}
		f.wantsError(ask(ctx, kv("\x00"), false), cache.ErrBadKey, cache.KindNone)
		f.wantsError(ask(ctx, cache.Key{Group: "nope", Key: "k"}, false), cache.ErrUnknownGroup, cache.KindNone)
	})
}

func TestServeAsAStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.actIn(3)
		g := f.serve(nil, doc("k"))
		if s := f.Stats(); g.err != nil || s.StandIn != 1 || s.ServedLoads != 1 || !g.StandIn {
			t.Errorf("%+v, %+v", g, s)
		}
	})
}

func TestGetsAsAStandInAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.actIn(5)
		f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
		g := f.get(doc("k"))
		f.wants(g, "k#1", cache.KindHit)
		if !g.StandIn || !f.get(kv("nothing")).StandIn {
			t.Errorf("%+v", g)
		}
		if s := f.Stats(); s.StandIn != 3 || s.Peer != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestServeStoredNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.StaleWhileRevalidate = 20 * second }))
		f.origin.latency = second
		stored := func(key cache.Key, onlyIfCached bool, fits func(*cache.Entry) bool) (cache.Answer, bool) {
			g, err := f.Group(key.Group)
			if err != nil {
				t.Fatal(err)
			}
			r := g.Read(key.Key, onlyIfCached)
			return r.ServeStored(f.currentTerm(), fits)
		}
		wants := func(what string, key cache.Key, onlyIfCached bool, want cache.Kind) {
			t.Helper()
			a, ok := stored(key, onlyIfCached, nil)
			if a.Kind != want || ok != (want != cache.KindNone) || ok && (a.Entry == nil || a.Node != "n1" || a.OwnerKind != want) {
				t.Errorf("%s: %+v, %v", what, a, ok)
			}
			f.Delivered(a.Kind, ok)
		}
		wants("not stored", doc("k"), false, cache.KindNone)
		wants("nothing was put", kv("k"), false, cache.KindHit)
		wants("a key that cannot be", kv("\x00"), false, cache.KindNone)
		f.get(doc("k"))
		wants("fresh", doc("k"), false, cache.KindHit)
		pass(65 * second)
		wants("stale, not to be loaded", doc("k"), true, cache.KindStale)
		if pass(5 * second); f.origin.total() != 1 {
			t.Errorf("%d loads", f.origin.total())
		}
		wants("stale", doc("k"), false, cache.KindStale)
		if pass(5 * second); f.origin.total() != 2 {
			t.Errorf("%d loads, one of them a refresh", f.origin.total())
		}
		f.actIn(cache.Unowned)
		wants("unowned", doc("k"), false, cache.KindNone)
		f.actIn(3)
		wants("of another term", doc("k"), false, cache.KindNone)
		f.get(doc("k"))
		wants("as a stand-in", doc("k"), false, cache.KindHit)
		if _, ok := stored(doc("k"), false, func(e *cache.Entry) bool { return len(e.Value) == 0 }); ok {
			t.Error("answered with a value that does not fit")
		}
		if s := f.Stats(); s.Served != 5 || s.StandIn != 2 {
			t.Errorf("served %d, %d of them and of the gets as a stand-in", s.Served, s.StandIn)
		}
	})
}

// An answer that does not leave the node counts once: the load that was made for it
// is a refresh, and the get counts as it is answered in the end.
func TestADiscardedAnswerIsCountedAsARefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		g, err := f.Group("docs")
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range []struct {
			first, then cache.Kind
		}{
			{cache.KindLoad, cache.KindLoad}, // in the next term, which finds no entry
			{cache.KindHit, cache.KindHit},
		} {
			r := g.Read("k", false)
			r.Arrived()
			first, err := r.Answer(t.Context(), f.currentTerm())
			if err != nil || first.Kind != row.first {
				t.Errorf("read %d: %+v, %v", i, first, err)
			}
			r.Discard(first)
			if row.then == cache.KindLoad {
				f.actIn(f.currentTerm() + 1)
			}
			then, err := r.Answer(t.Context(), f.currentTerm())
			if err != nil || then.Kind != row.then {
				t.Errorf("read %d, again: %+v, %v", i, then, err)
			}
			r.Answered(then)
		}
		if s := f.Stats(); s.Gets != 2 || s.Loads != 1 || s.Hits != 1 || s.Refreshes != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestOnlyIfCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.wantsError(f.getStored(doc("k")), cache.ErrNotCached, cache.KindRefused)
		f.get(doc("k"))
		f.wants(f.getStored(doc("k")), "k#1", cache.KindHit)
		pass(10 * second)
		f.wants(f.getStored(doc("k")), "k#1", cache.KindStale)
		pass(second)
		if n := f.origin.loads("k"); n != 1 {
			t.Errorf("%d loads", n)
		}
		pass(10 * second)
		f.wantsError(f.getStored(doc("k")), cache.ErrNotCached, cache.KindRefused)
	})
}

func TestGetsOfImpossibleKeysAreNotCounted(t *testing.T) {
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
			f.wantsNothing(f.serveCtx(t.Context(), cache.Request{Key: doc(key)}), cache.KindHit)
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

// A key that is not stored may have been seen before: a key that was evicted, purged
// or PUT once is not part of a flood.
func TestKeysThatWereSeenBeforeAreNotNew(t *testing.T) {
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

// A node that nobody has confirmed does not remember that a load failed: the node that
// acts loads for itself.
func TestAnUnownedNodeRemembersNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.actIn(cache.Unowned)
		f.origin.set(0, failing)
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
		f.actIn(cache.OwnerTerm)
		f.origin.set(0, counting)
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
	})
}
