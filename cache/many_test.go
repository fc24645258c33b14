package cache_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

// batchRouter is a router whose other nodes have some keys stored.
type batchRouter struct {
	router
	asked  []string // what ForwardMany was asked for, in a group
	stored map[string]*cache.Entry
}

func (r *batchRouter) ForwardMany(_ context.Context, group string, keys []string) []cache.Answer {
	answers := make([]cache.Answer, len(keys))
	for i, key := range keys {
		r.asked = append(r.asked, group+"/"+key)
		if e := r.stored[key]; e != nil {
			answers[i] = cache.Answer{Entry: e, Kind: cache.KindPeer, OwnerKind: cache.KindHit, Node: "n2"}
		}
	}
	return answers
}

func TestGetManyAsksOtherNodesForAllTheirKeysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &batchRouter{stored: map[string]*cache.Entry{"a": {Value: []byte("theirs")}, "gone": {Negative: true}}}
		r.forward = func(_ context.Context, req *cache.Request) (cache.Answer, error) {
			return cache.Answer{Entry: &cache.Entry{Value: []byte(req.Key.Key + " loaded")}, Kind: cache.KindPeer, OwnerKind: cache.KindLoad, Node: "n2"}, nil
		}
		f := setup(t, func(o *cache.Options) { o.Router = r }, group(func(g *cache.GroupConfig) { g.KeyPattern = "[a-z]+" }))
		results := f.GetMany(t.Context(), "docs", []string{"a", "miss", "\n", "gone", "a", "7"}, nil)
		if want := []string{"docs/a", "docs/miss", "docs/gone", "docs/a"}; !slices.Equal(r.asked, want) || r.forwards != 1 {
			t.Errorf("asked for %q and %d more, want %q and one", r.asked, r.forwards, want)
		}
		for i, want := range []string{"theirs hit", "miss loaded load", "bad", "negative hit", "theirs hit", "negative local"} {
			got := "bad"
			switch a := results[i]; {
			case errors.Is(a.Err, cache.ErrBadKey):
			case a.Err != nil:
				got = a.Err.Error()
			case a.Kind == cache.KindHit && a.Entry.Negative && a.Node == "n1":
				got = "negative local" // no key of the group's
			default:
				got = string(a.Entry.Value)
				if a.Entry.Negative {
					got = "negative"
				}
				got += map[cache.Kind]string{cache.KindHit: " hit", cache.KindLoad: " load"}[a.OwnerKind]
				if a.Kind != cache.KindPeer || a.Node != "n2" {
					t.Errorf("%+v", a)
				}
			}
			if got != want {
				t.Errorf("key %d: %s, want %s", i, got, want)
			}
		}
		if s := f.Stats(); s.Gets != 5 || s.Peer != 4 || s.Hits != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A key that another node acts for, and then this one does, is loaded here.
func TestGetManyActsHereForWhatNobodyElseDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &batchRouter{}
		r.forward = nobody
		f := setup(t, func(o *cache.Options) { o.Router = r })
		for _, result := range f.GetMany(t.Context(), "docs", []string{"a", "b"}, nil) {
			if result.Err != nil || result.Kind != cache.KindLoad || result.Node != "n1" {
				t.Errorf("%+v", result)
			}
		}
	})
}

func TestServeStoredNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{self: true}
		f := setup(t, routed(r), group(func(g *cache.GroupConfig) { g.StaleWhileRevalidate = 20 * second }))
		f.origin.latency = second
		wants := func(what string, key cache.Key, onlyIfCached bool, want cache.Kind) {
			t.Helper()
			a, ok := f.ServeStored(key, onlyIfCached, nil)
			if a.Kind != want || ok != (want != cache.KindNone) || ok && (a.Entry == nil || a.Node != "n1" || a.OwnerKind != want) {
				t.Errorf("%s: %+v, %v", what, a, ok)
			}
			f.Settle(a.Kind, ok)
		}
		wants("unknown group", cache.Key{Group: "no", Key: "k"}, false, cache.KindNone)
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
		r.acts(0, false)
		wants("another node's", doc("k"), false, cache.KindNone)
		r.acts(3, true)
		wants("of another term", doc("k"), false, cache.KindNone)
		f.get(doc("k"))
		wants("as a stand-in", doc("k"), false, cache.KindHit)
		if _, ok := f.ServeStored(doc("k"), false, func(e *cache.Entry) bool { return len(e.Value) == 0 }); ok {
			t.Error("answered with what does not fit")
		}
		if s := f.Stats(); s.Served != 5 || s.StandIn != 2 {
			t.Errorf("served %d, %d of them and of the gets as a stand-in", s.Served, s.StandIn)
		}
	})
}

// Large values of one batch are not all in memory at once: what comes after
// the first few waits until these are done with, and each is one get.
func TestGetManyHoldsFewLargeValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		var under, most atomic.Int32
		r := &batchRouter{}
		r.forward = func(_ context.Context, req *cache.Request) (cache.Answer, error) {
			for n := under.Add(1); n > most.Load(); n = under.Load() {
				most.Store(n)
			}
			defer under.Add(-1)
			time.Sleep(time.Millisecond)
			e := &cache.Entry{Value: append(make([]byte, size), req.Key.Key...)}
			return cache.Answer{Entry: e, Kind: cache.KindPeer, OwnerKind: cache.KindHit, Node: "n2"}, nil
		}
		f := setup(t, func(o *cache.Options) { o.Router = r })
		keys := make([]string, 40)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		results := make([]cache.Result, len(keys))
		for done := 0; done < len(keys); {
			f.GetMany(t.Context(), "docs", keys[done:], results[done:])
			held := 0
			for i := range results {
				if results[i].Answered() {
					held++
				}
			}
			if held == 0 || held > 8 {
				t.Fatalf("%d values of 1 MiB at once", held)
			}
			for ; done < len(keys) && results[done].Answered(); done++ {
				if got := string(results[done].Entry.Value[size:]); got != keys[done] {
					t.Errorf("key %s has the value of %s", keys[done], got)
				}
				results[done] = cache.Result{}
			}
		}
		if s := f.Stats(); s.Gets != 40 || s.Peer != 40 || r.forwards != 40 || most.Load() > 4 {
			t.Errorf("%d forwards, %d at once; %+v", r.forwards, most.Load(), s)
		}
	})
}

// Large values that are stored are handed out a few at a time, too: the cache may
// evict what its caller holds.
func TestGetManyHandsOutFewLargeStoredValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		f := setup(t)
		keys := make([]string, 40)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
			f.put(kv(keys[i]), strings.Repeat("x", size))
		}
		results := make([]cache.Result, len(keys))
		calls := 0
		for done := 0; done < len(keys); calls++ {
			f.GetMany(t.Context(), "kv", keys[done:], results[done:])
			began := done
			for ; done < len(keys) && results[done].Answered(); done++ {
				if len(results[done].Entry.Value) != size {
					t.Errorf("key %s has %d bytes", keys[done], len(results[done].Entry.Value))
				}
			}
			if n := done - began; n < 1 || n > 2 {
				t.Fatalf("%d values of 1 MiB at once", n)
			}
			for _, r := range results[done:] {
				if r.Answered() {
					t.Fatal("one further on is answered already")
				}
			}
		}
		if s := f.Stats(); s.Gets != 40 || s.Hits != 40 || calls != 20 {
			t.Errorf("%d gets, %d hits, %d calls", s.Gets, s.Hits, calls)
		}
	})
}

// Small ones are waited for together as soon as one has shown that they are.
func TestGetManyWaitsForManySmallValuesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &batchRouter{}
		r.forward = func(_ context.Context, req *cache.Request) (cache.Answer, error) {
			time.Sleep(time.Second)
			return cache.Answer{Entry: &cache.Entry{Value: []byte("v")}, Kind: cache.KindPeer, OwnerKind: cache.KindLoad, Node: "n2"}, nil
		}
		f := setup(t, func(o *cache.Options) { o.Router = r })
		keys := make([]string, 68)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		began := time.Now()
		for i, res := range f.GetMany(t.Context(), "docs", keys, nil) {
			if !res.Answered() || res.Err != nil {
				t.Errorf("key %d: %+v", i, res)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("4 keys, then 64, took %v", took)
		}
	})
}

// Slow loads are begun though none before has shown its size: a few that hang
// do not use up the time of all.
func TestGetManyDoesNotWaitForSlowLoadsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &batchRouter{}
		r.forward = func(ctx context.Context, req *cache.Request) (cache.Answer, error) {
			wait := 20 * time.Second
			if n, _ := strconv.Atoi(req.Key.Key); n < 4 {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
				return cache.Answer{Entry: &cache.Entry{Value: []byte("v")}, Kind: cache.KindPeer, OwnerKind: cache.KindLoad, Node: "n2"}, nil
			case <-ctx.Done():
				return cache.Answer{Kind: cache.KindPeer}, cache.ErrOriginTimeout.Because(ctx.Err())
			}
		}
		f := setup(t, func(o *cache.Options) { o.Router = r })
		keys := make([]string, 20)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for i, res := range f.GetMany(ctx, "docs", keys, nil) {
			if hangs := i < 4; !res.Answered() || (res.Err != nil) != hangs {
				t.Errorf("key %d: %+v", i, res)
			}
		}
		if s := f.Stats(); s.Gets != 20 || s.Peer != 20 {
			t.Errorf("%+v", s)
		}
	})
}
