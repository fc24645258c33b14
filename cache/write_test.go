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
		if e := g.Entry; e.ContentType != "application/octet-stream" || e.TTL != 0 || e.ETag != cache.ContentETag([]byte("two"), "") {
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
		met                  bool
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
				_, err := f.Put(t.Context(), &cache.Request{Key: kv("k"), Value: []byte("two"), IfMatch: row.ifMatch, IfNoneMatch: row.ifNoneMatch})
				if row.met {
					want = "two"
				}
				if met := err == nil; met != row.met || !met && !errors.Is(err, cache.ErrPreconditionFailed) {
					t.Errorf("%v", err)
				}
				if g := f.get(kv("k")); string(g.Entry.Value) != want {
					t.Errorf("%q, want %q", g.Entry.Value, want)
				}
				f.remove(kv("k"))
				if row.there {
					f.put(kv("k"), "one")
				}
				err = f.DeleteIf(t.Context(), &cache.Request{Key: kv("k"), IfMatch: row.ifMatch, IfNoneMatch: row.ifNoneMatch})
				if met := err == nil; met != row.met || !met && !errors.Is(err, cache.ErrPreconditionFailed) {
					t.Errorf("delete: %v", err)
				}
				if g := f.get(kv("k")); g.Entry.Negative != (row.met || !row.there) {
					t.Errorf("after the delete: %+v", g.Entry)
				}
			})
		})
	}
}

// A write whose answer was lost is asked again with its id.
func TestRetriedWriteIsAppliedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		serve := func(req cache.Request) cache.Answer {
			t.Helper()
			a, err := f.Serve(t.Context(), &req)
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

func TestTwoPutsAtOnceAreBothApplied(t *testing.T) {
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
				if _, err := f.Put(t.Context(), &row.req); !errors.Is(err, row.want) {
					t.Errorf("%v, want %v", err, row.want)
				}
				row.req.Op = cache.OpPut
				if a, err := f.Serve(t.Context(), &row.req); !errors.Is(err, row.want) || a.Kind != cache.KindNone {
					t.Errorf("served: %v, want %v", err, row.want)
				}
				f.wants(f.get(kv("k")), "old", cache.KindHit)
			})
		})
	}
}

func TestWriteWithAContextThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Delete(ctx, kv("k")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 0)
		defer cancel()
		if err := f.Delete(ctx, kv("k")); !errors.Is(err, cache.ErrWriteUnconfirmed) {
			t.Error(err)
		}
	})
}

// Another node's write that was given up, or whose time has passed, changes
// nothing: it may have been carried out elsewhere long ago.
func TestAnothersWriteWithAContextThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.put(kv("k"), "newer")
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		pass(2 * second)
		for i, req := range []cache.Request{
			{Op: cache.OpPut, Key: kv("k"), Value: []byte("older"), ID: 1},
			{Op: cache.OpDelete, Key: kv("k"), ID: 2},
		} {
			if _, err := f.Serve(cancelled, &req); !errors.Is(err, context.Canceled) {
				t.Errorf("write %d, cancelled: %v", i, err)
			}
			if _, err := f.Serve(late, &req); !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Errorf("write %d, too late: %v", i, err)
			}
			f.wants(f.get(kv("k")), "newer", cache.KindHit)
		}
		// Refused is not done: the same write with time left is carried out.
		if _, err := f.Serve(t.Context(), &cache.Request{Op: cache.OpDelete, Key: kv("k"), ID: 2}); err != nil {
			t.Error(err)
		}
		f.wantsNothing(f.get(kv("k")), cache.KindHit)
	})
}
