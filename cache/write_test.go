package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

func TestPutGetDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.wantsNothing(f.get(kv("k")), cache.KindHit)
		if a := f.put(kv("k"), "one"); !a.Created || !a.Stored || a.Kind != cache.KindNone {
			t.Errorf("%+v", a)
		}
		if a := f.put(kv("k"), "two"); a.Created {
			t.Errorf("%+v", a)
		}
		g := f.get(kv("k"))
		f.wants(g, "two", cache.KindHit)
		if e := g.Entry; e.ContentType != "application/octet-stream" || !e.Forever() || e.ETag != cache.ContentETag([]byte("two"), "") {
			t.Errorf("%+v", e)
		}
		f.remove(kv("k"))
		f.remove(kv("k"))
		f.wantsNothing(f.get(kv("k")), cache.KindHit)
		f.put(kv("k"), "")
		f.wants(f.get(kv("k")), "", cache.KindHit)
	})
}

func TestPutInAGroupWithAnOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.origin.set(0, missing)
		f.wantsNothing(f.get(doc("k")), cache.KindLoad)
		if a := f.put(doc("k"), "put"); !a.Created {
			t.Error("a negative entry counted as a value")
		}
		f.wants(f.get(doc("k")), "put", cache.KindHit)
		f.origin.set(0, counting)
		pass(10 * second)
		f.wants(f.get(doc("k")), "put", cache.KindStale)
		synctest.Wait()
		f.wants(f.get(doc("k")), "k#2", cache.KindHit)
		f.put(doc("k"), "again")
		pass(200 * second)
		if a := f.put(doc("k"), "new"); !a.Created {
			t.Error("an entry that is long over counted as a value")
		}
	})
}

func TestWriteForgetsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(0, failing)
		for i, write := range []func(){func() { f.remove(doc("k")) }, func() { f.DropGroup("docs") }} {
			f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
			f.wantsError(f.get(doc("k")), errOrigin, cache.KindJoined)
			write()
			if n := f.origin.loads("k"); n != i+1 {
				t.Errorf("%d loads", n)
			}
		}
	})
}

func TestConditionalWrites(t *testing.T) {
	one := cache.ContentETag([]byte("one"), "")
	none := `"none"`
	rows := []struct {
		name                 string
		there                bool
		ifMatch, ifNoneMatch []string
		holds                bool
	}{
		{"match, there", true, []string{none, one}, nil, true},
		{"match, another there", true, []string{none}, nil, false},
		{"match, nothing there", false, []string{one}, nil, false},
		{"match weak", true, []string{"W/" + one}, nil, false},
		{"match any, there", true, []string{"*"}, nil, true},
		{"match any, nothing there", false, []string{"*"}, nil, false},
		{"none match any, there", true, nil, []string{"*"}, false},
		{"none match any, nothing there", false, nil, []string{"*"}, true},
		{"none match, there", true, nil, []string{one}, false},
		{"none match weak, there", true, nil, []string{"W/" + one}, false},
		{"none match, another there", true, nil, []string{none}, true},
		{"both", true, []string{one}, []string{none}, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t)
				want := ""
				if row.there {
					f.put(kv("k"), "one")
					want = "one"
				}
				err := f.putCtx(t.Context(), cache.Request{Key: kv("k"), Value: []byte("two"), IfMatch: row.ifMatch, IfNoneMatch: row.ifNoneMatch}).err
				if row.holds {
					want = "two"
				}
				if holds := err == nil; holds != row.holds || !holds && !errors.Is(err, cache.ErrPreconditionFailed) {
					t.Errorf("%v", err)
				}
				if g := f.get(kv("k")); string(g.Entry.Value) != want {
					t.Errorf("%q, want %q", g.Entry.Value, want)
				}
				f.remove(kv("k"))
				if row.there {
					f.put(kv("k"), "one")
				}
				err = f.removeCtx(t.Context(), cache.Request{Key: kv("k"), IfMatch: row.ifMatch, IfNoneMatch: row.ifNoneMatch})
				if holds := err == nil; holds != row.holds || !holds && !errors.Is(err, cache.ErrPreconditionFailed) {
					t.Errorf("delete: %v", err)
				}
				if g := f.get(kv("k")); g.Entry.Negative != (row.holds || !row.there) {
					t.Errorf("after the delete: %+v", g.Entry)
				}
			})
		})
	}
}

// The caller of a write whose answer was lost asks again with the same id.
func TestRetriedWriteIsAppliedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		serve := func(req cache.Request) cache.Answer {
			t.Helper()
			a, err := write(t.Context(), f.Cache, cache.OwnerTerm, req)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		put := cache.Request{Op: cache.OpPut, ID: 7, Key: kv("k"), Value: []byte("one"), IfNoneMatch: []string{"*"}}
		for try := range 2 {
			if !serve(put).Created {
				t.Errorf("try %d: its own first try has changed the outcome", try)
			}
		}
		f.put(kv("k"), "two")
		serve(put)
		f.wants(f.get(kv("k")), "two", cache.KindHit)
		del := cache.Request{Op: cache.OpDelete, ID: 8, Key: kv("k")}
		serve(del)
		f.put(kv("k"), "three")
		serve(del)
		f.wants(f.get(kv("k")), "three", cache.KindHit)
		other := cache.Request{Op: cache.OpPut, ID: 7, Key: kv("other"), Value: []byte("v")}
		serve(other) // the same id on another key is another write
		f.wants(f.get(kv("other")), "v", cache.KindHit)

		for i := range 5000 {
			serve(cache.Request{Op: cache.OpPut, ID: 100 + uint64(i), Key: kv("k"), Value: []byte("many")})
		}
		serve(cache.Request{Op: cache.OpPut, ID: 8, Key: kv("k"), Value: []byte("four")}) // forgotten by now
		f.wants(f.get(kv("k")), "four", cache.KindHit)
	})
}

func TestPutsAtTheSameTimeAreAllApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		const writers = 50
		created := make(chan bool, writers)
		versions := make(chan cache.Version, writers)
		for i := range writers {
			go func() {
				a := f.put(kv("k"), fmt.Sprint(i))
				created <- a.Created
				versions <- a.Entry.Version
			}()
		}
		news, seen, newest := 0, map[cache.Version]bool{}, cache.Version{}
		for range writers {
			if <-created {
				news++
			}
			v := <-versions
			seen[v] = true
			if v.Counter > newest.Counter {
				newest = v
			}
		}
		if news != 1 || len(seen) != writers {
			t.Errorf("%d of the puts were the first, %d versions", news, len(seen))
		}
		if v := f.get(kv("k")).Entry.Version; v != newest {
			t.Errorf("version %v stayed, the newest is %v", v, newest)
		}
	})
}

func TestWritesThatAreRefused(t *testing.T) {
	rows := []struct {
		name string
		req  cache.Request
		want error
	}{
		{"unknown group", cache.Request{Key: cache.Key{Group: "nope", Key: "k"}}, cache.ErrUnknownGroup},
		{"no key", cache.Request{Key: kv("")}, cache.ErrBadKey},
		{"long key", cache.Request{Key: kv(strings.Repeat("k", 1025))}, cache.ErrKeyTooLong},
		{"control character", cache.Request{Key: kv("a\nb")}, cache.ErrBadKey},
		{"bad utf-8", cache.Request{Key: kv("a\xffb")}, cache.ErrBadKey},
		{"pattern", cache.Request{Key: doc("k9")}, cache.ErrBadKey},
		{"the origin's own rule", cache.Request{Key: doc("refused")}, cache.ErrBadKey},
		{"ttl", cache.Request{Key: kv("k"), TTL: -1}, cache.ErrBadTTL},
		{"large value", cache.Request{Key: kv("k"), Value: make([]byte, 4097)}, cache.ErrValueTooLarge},
		{"value larger than the cache", cache.Request{Key: kv("k"), Value: make([]byte, 4096)}, cache.ErrValueTooLarge},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, func(o *cache.Options) {
					o.Config.MaxBytes, o.Config.MaxValueBytes = 4096, 4096
					o.Groups[0].KeyPattern = "[a-z]+"
					o.Groups[0].CheckKey = func(key string) error {
						if key == "refused" {
							return cache.ErrBadKey
						}
						return nil
					}
				})
				f.put(kv("k"), "old")
				if g := f.putCtx(t.Context(), row.req); !errors.Is(g.err, row.want) || g.Kind != cache.KindNone {
					t.Errorf("%v, want %v", g.err, row.want)
				}
				f.wants(f.get(kv("k")), "old", cache.KindHit)
			})
		})
	}
}

// A write whose context has ended changes nothing: its caller may have had it carried out
// at another node long ago.
func TestAWriteWhoseContextHasEndedChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.put(kv("k"), "newer")
		for i, req := range []cache.Request{
			{Op: cache.OpPut, Key: kv("k"), Value: []byte("older"), ID: 1},
			{Op: cache.OpDelete, Key: kv("k"), ID: 2},
		} {
			cancelled, cancel := context.WithCancel(t.Context())
			late, cancelLate := context.WithTimeout(t.Context(), second)
			defer cancelLate()
			begun := f.begin(t.Context(), req)
			cancel()
			if _, err := begun.Commit(cancelled); !errors.Is(err, context.Canceled) {
				t.Errorf("write %d, cancelled after it has begun: %v", i, err)
			}
			begun = f.begin(late, req)
			pass(2 * second)
			if _, err := begun.Commit(late); !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Errorf("write %d, too late after it has begun: %v", i, err)
			}
			if _, err := write(cancelled, f.Cache, cache.OwnerTerm, req); !errors.Is(err, context.Canceled) {
				t.Errorf("write %d, cancelled: %v", i, err)
			}
			if _, err := write(late, f.Cache, cache.OwnerTerm, req); !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Errorf("write %d, too late: %v", i, err)
			}
			f.wants(f.get(kv("k")), "newer", cache.KindHit)
		}
		// Such a write is not remembered: with time left it is carried out.
		if _, err := write(t.Context(), f.Cache, cache.OwnerTerm, cache.Request{Op: cache.OpDelete, Key: kv("k"), ID: 2}); err != nil {
			t.Error(err)
		}
		f.wantsNothing(f.get(kv("k")), cache.KindHit)
	})
}

// begin begins a write and leaves it there.
func (f *fixture) begin(ctx context.Context, req cache.Request) *cache.Write {
	f.t.Helper()
	if err := f.CheckWrite(&req); err != nil {
		f.t.Fatal(err)
	}
	w, err := f.BeginWrite(ctx, &req, f.currentTerm())
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

func (f *fixture) commit(w *cache.Write) {
	f.t.Helper()
	if _, err := w.Commit(context.Background()); err != nil {
		f.t.Error(err)
	}
}

func putOf(key cache.Key, value string) cache.Request {
	return cache.Request{Op: cache.OpPut, Key: key, Value: []byte(value)}
}

// A load that runs when a write begins, or begins and ends while the write waits for
// its confirmations, answers its gets and is not stored.
func TestNoLoadIsStoredWhileAWriteIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = second
		before := f.crowd(2, doc("k"))
		synctest.Wait()
		w := f.begin(t.Context(), putOf(doc("k"), "new"))
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad) // the next load: the first one is marked
		for _, gs := range before() {
			f.wants(gs[0], "k#1", gs[0].Kind)
		}
		g := f.get(doc("k")) // begins and ends between the two steps
		f.wants(g, "k#3", cache.KindLoad)
		if _, ok := f.Copy(doc("k")); ok || g.Stored {
			t.Error("a load was stored between the two steps of a write")
		}
		f.commit(w)
		f.wants(f.get(doc("k")), "new", cache.KindHit)
		if n := f.origin.loads("k"); n != 3 {
			t.Errorf("%d loads", n)
		}
	})
}

// A load that begins before the value is visible and ends afterwards is not stored.
func TestALoadAcrossTheEndOfAWriteIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = second
		w := f.begin(t.Context(), cache.Request{Op: cache.OpDelete, Key: doc("k")})
		during := f.crowd(1, doc("k"))
		pass(second / 2)
		f.commit(w)
		after := f.crowd(1, doc("k"))
		for value, answers := range map[string]func() map[cache.Kind][]got{"k#1": during, "k#2": after} {
			for _, gs := range answers() {
				f.wants(gs[0], value, cache.KindLoad)
			}
		}
		f.wants(f.get(doc("k")), "k#2", cache.KindHit)
	})
}

// A write that is under way is invisible to gets. Meanwhile an answer of the origin does
// not remove the old value.
func TestAWriteIsInvisibleUntilItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.put(doc("k"), "old")
		w := f.begin(t.Context(), putOf(doc("k"), "new"))
		f.wants(f.get(doc("k")), "old", cache.KindHit)
		pass(12 * second)
		f.origin.set(0, answering(cache.ValueEnded, 0))
		f.wants(f.get(doc("k")), "old", cache.KindStale)
		synctest.Wait()
		f.wants(f.get(doc("k")), "old", cache.KindStale)
		w.Abandon()
		f.wants(f.get(doc("k")), "old", cache.KindStale)
	})
}

func TestAnAbandonedWriteHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.put(kv("k"), "old")
		for _, req := range []cache.Request{
			{Op: cache.OpPut, Key: kv("k"), Value: []byte("new"), ID: 7},
			{Op: cache.OpDelete, Key: kv("k"), ID: 8},
			{Op: cache.OpPut, Key: kv("other"), Value: []byte("new"), ID: 9},
		} {
			f.begin(t.Context(), req).Abandon()
		}
		f.wants(f.get(kv("k")), "old", cache.KindHit)
		f.wantsNothing(f.get(kv("other")), cache.KindHit)
		// Its id is not known: the same write again is carried out.
		f.commit(f.begin(t.Context(), cache.Request{Op: cache.OpPut, Key: kv("k"), Value: []byte("new"), ID: 7}))
		f.wants(f.get(kv("k")), "new", cache.KindHit)
		// Loads of the key are stored again.
		f.begin(t.Context(), putOf(doc("k"), "new")).Abandon()
		f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
		f.wants(f.get(doc("k")), "k#1", cache.KindHit)
	})
}

// The second write of a key waits for the end of the first, however that ends. Writes
// of other keys do not wait.
func TestASecondWriteOfAKeyWaitsForTheFirst(t *testing.T) {
	for name, row := range map[string]struct {
		end     func(f *fixture, w *cache.Write)
		created bool // by the second write
	}{
		"committed": {func(f *fixture, w *cache.Write) { f.commit(w) }, false},
		"abandoned": {func(_ *fixture, w *cache.Write) { w.Abandon() }, true},
		"too late": {func(f *fixture, w *cache.Write) {
			ctx, cancel := context.WithCancel(f.t.Context())
			cancel()
			if _, err := w.Commit(ctx); !errors.Is(err, context.Canceled) {
				f.t.Error(err)
			}
		}, true},
		"its condition no longer held": {func(f *fixture, w *cache.Write) {
			f.DropGroup("kv")
			if _, err := w.Commit(f.t.Context()); !errors.Is(err, cache.ErrPreconditionFailed) {
				f.t.Error(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t)
				req := putOf(kv("k"), "first")
				if name == "its condition no longer held" {
					f.put(kv("k"), "old")
					req.IfMatch = []string{"*"}
				}
				first := f.begin(t.Context(), req)
				second := make(chan got, 1)
				go func() { second <- f.put(kv("k"), "second") }()
				synctest.Wait()
				f.put(kv("other"), "v")
				if len(second) > 0 {
					t.Fatal("it did not wait")
				}
				row.end(f, first)
				if g := <-second; g.Created != row.created {
					t.Errorf("%+v", g)
				}
				f.wants(f.get(kv("k")), "second", cache.KindHit)
			})
		})
	}
}

func TestAWriteWaitsForItsTurnToTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		first := f.begin(t.Context(), putOf(kv("k"), "first"))
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		began := time.Now()
		if g := f.putCtx(ctx, putOf(kv("k"), "late")); !errors.Is(g.err, cache.ErrWriteUnconfirmed) || time.Since(began) != second {
			t.Errorf("%v after %v", g.err, time.Since(began))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(second, cancel)
		if g := f.putCtx(ctx, putOf(kv("k"), "cancelled")); !errors.Is(g.err, context.Canceled) {
			t.Error(g.err)
		}
		f.commit(first)
		f.wants(f.get(kv("k")), "first", cache.KindHit)
	})
}

// The condition of a write must hold when it begins, and again at its commit: a purge may
// have dropped the value in between.
func TestAConditionMustHoldAtTheCommitToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.put(kv("k"), "one")
		ifMatch := cache.Request{Op: cache.OpPut, Key: kv("k"), Value: []byte("two"), IfMatch: []string{cache.ContentETag([]byte("one"), "")}, ID: 7}
		w := f.begin(t.Context(), ifMatch)
		f.DropGroup("kv")
		if a, err := w.Commit(t.Context()); !errors.Is(err, cache.ErrPreconditionFailed) || a.Entry != nil || a.Stored {
			t.Errorf("%+v, %v", a, err)
		}
		f.wantsNothing(f.get(kv("k")), cache.KindHit)
		// The id of a write that failed is not known.
		if g := f.putCtx(t.Context(), ifMatch); !errors.Is(g.err, cache.ErrPreconditionFailed) {
			t.Error(g.err)
		}
		// A value that ends between the two steps does not count.
		f.putCtx(t.Context(), cache.Request{Key: kv("k"), Value: []byte("short"), TTL: second})
		w = f.begin(t.Context(), cache.Request{Op: cache.OpDelete, Key: kv("k"), IfMatch: []string{"*"}})
		pass(second)
		if _, err := w.Commit(t.Context()); !errors.Is(err, cache.ErrPreconditionFailed) {
			t.Error(err)
		}
		// Created is decided at the commit.
		f.put(kv("k"), "one")
		w = f.begin(t.Context(), putOf(kv("k"), "two"))
		f.DropTags("kv", []string{"a"})
		if a, err := w.Commit(t.Context()); err != nil || a.Created {
			t.Errorf("%+v, %v", a, err)
		}
		w = f.begin(t.Context(), putOf(kv("k"), "three"))
		f.DropGroup("kv")
		if a, err := w.Commit(t.Context()); err != nil || !a.Created {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// A write whose id is known is answered like its first try. It marks no load, checks no
// condition and has no effect. A second try waits for a first one that is under way.
func TestAWriteThatIsKnownHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		put := cache.Request{Op: cache.OpPut, Key: doc("k"), Value: []byte("one"), IfNoneMatch: []string{"*"}, ID: 7}
		first := f.begin(t.Context(), put)
		again := make(chan got, 1)
		go func() { again <- f.putCtx(t.Context(), put) }()
		synctest.Wait()
		if len(again) > 0 {
			t.Fatal("the second try did not wait for the first")
		}
		f.commit(first)
		if g := <-again; g.err != nil || !g.Created || string(g.Entry.Value) != "one" {
			t.Errorf("%+v", g)
		}
		f.remove(doc("k"))
		f.origin.latency = second
		load := f.crowd(1, doc("k"))
		synctest.Wait()
		if g := f.putCtx(t.Context(), put); g.err != nil || !g.Created {
			t.Errorf("%+v", g)
		}
		f.wants(load()[cache.KindLoad][0], "k#1", cache.KindLoad)
		f.wants(f.get(doc("k")), "k#1", cache.KindHit) // it was not marked
	})
}

// A write in another term finds no value of an earlier one, and what it stores is of
// its own.
func TestAWriteActsInItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.put(kv("k"), "one")
		f.actIn(2)
		if g := f.putCtx(t.Context(), cache.Request{Key: kv("k"), Value: []byte("two"), IfMatch: []string{"*"}}); !errors.Is(g.err, cache.ErrPreconditionFailed) {
			t.Errorf("%+v", g)
		}
		if g := f.put(kv("k"), "two"); !g.Created || g.Entry.Term != 2 {
			t.Errorf("%+v", g)
		}
		f.wants(f.get(kv("k")), "two", cache.KindHit)
		f.actIn(3)
		f.wantsNothing(f.get(kv("k")), cache.KindHit)
	})
}
