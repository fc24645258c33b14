package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"kring/cache"
)

func TestLargeValuesAreServedAndNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short), func(o *cache.Options) { o.Config.MaxValueBytes = 1000 })
		f.get(doc("k"))
		pass(20 * second)
		large := string(bytes.Repeat([]byte("x"), 1001))
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) { return value(large), nil })
		g := f.get(doc("k"))
		f.wants(g, large, cache.KindLoad)
		if g.Stored {
			t.Error("stored")
		}
		if s := f.Stats(); s.Entries != 0 {
			t.Errorf("%d entries: the old value is still there", s.Entries)
		}
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) { return value(large[1:]), nil })
		if g := f.get(doc("k")); !g.Stored {
			t.Error("not stored")
		}
	})
}

func TestValuesAreKeptWithoutSpareCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		roomy := make([]byte, 10, 1000)
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) {
			return cache.Loaded{Entry: &cache.Entry{Value: roomy}, Freshness: cache.Unsaid}, nil
		})
		if g := f.putCtx(t.Context(), cache.Request{Key: kv("k"), Value: roomy}); g.err != nil {
			t.Fatal(g.err)
		}
		for _, key := range []cache.Key{doc("k"), kv("k")} {
			if v := f.get(key).Entry.Value; cap(v) != 10 {
				t.Errorf("capacity %d", cap(v))
			}
		}
	})
}

func TestStoreStaysInItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(o *cache.Options) { o.Config.MaxBytes = 1 << 20 })
		for i := range 3000 {
			n := i * 37 % 20000
			f.put(kv(fmt.Sprint(i%700)), string(make([]byte, n)))
			f.get(doc(fmt.Sprint(i % 300)))
			f.checkBooks()
		}
		if s := f.Stats(); s.Evictions == 0 || s.Bytes < s.MaxBytes/2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestContentETag(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range []struct{ value, encoding string }{{"a", ""}, {"b", ""}, {"a", "gzip"}, {"", ""}, {"", "a"}, {"a", "a"}} {
		tag := cache.ContentETag([]byte(v.value), v.encoding)
		if len(tag) != 34 || tag[0] != '"' || tag[33] != '"' || seen[tag] {
			t.Errorf("%v: %s", v, tag)
		}
		seen[tag] = true
	}
}

// liveHeap is how many bytes are in use after a collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // frees what the finalizers of the first run have released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The node keeps only those bytes of a request or an answer that it counts. It does not
// keep a buffer that a key, a type or a cause is part of.
func TestTheNodeKeepsCopies(t *testing.T) {
	const large, times = 256 << 10, 200
	// in gives a string within one that takes 256 KiB.
	in := func(s string) string {
		return strings.Repeat(s+strings.Repeat(".", 1000), large/(1000+len(s)))[:len(s)]
	}
	for name, do := range map[string]func(f *fixture, i int){
		"a key that is loaded":    func(f *fixture, i int) { f.get(doc(in(fmt.Sprint("k", i)))) },
		"a key that is PUT":       func(f *fixture, i int) { f.put(kv(in(fmt.Sprint("k", i))), "v") },
		"a key that is deleted":   func(f *fixture, i int) { f.remove(kv(in(fmt.Sprint("k", i)))) },
		"a key that is not there": func(f *fixture, i int) { f.get(kv(in(fmt.Sprint("k", i)))) },
		"a key that is missing":   func(f *fixture, i int) { f.origin.set(0, missing); f.get(doc(in(fmt.Sprint("k", i)))) },
		"a key that fails":        func(f *fixture, i int) { f.origin.set(0, failing); f.get(doc(in(fmt.Sprint("k", i)))) },
		"a key that is overwritten": func(f *fixture, i int) {
			f.put(kv(fmt.Sprint("k", i)), "old")
			f.put(kv(in(fmt.Sprint("k", i))), "new")
		},
		"the group's name": func(f *fixture, i int) { f.get(cache.Key{Group: in("docs"), Key: fmt.Sprint("k", i)}) },
		"the group's name of a write": func(f *fixture, i int) {
			if g := f.putCtx(context.Background(), cache.Request{Key: cache.Key{Group: in("kv"), Key: fmt.Sprint("k", i)}}); g.err != nil {
				f.t.Error(g.err)
			}
		},
		"another node's get": func(f *fixture, i int) {
			if g := f.serve(nil, cache.Key{Group: in("docs"), Key: in(fmt.Sprint("k", i))}); g.err != nil {
				f.t.Error(g.err)
			}
		},
		"another node's put": func(f *fixture, i int) {
			if g := f.putCtx(context.Background(), cache.Request{ID: 1 + uint64(i), Key: cache.Key{Group: in("kv"), Key: in(fmt.Sprint("k", i))}}); g.err != nil {
				f.t.Error(g.err)
			}
		},
		"a write that is abandoned": func(f *fixture, i int) {
			f.begin(context.Background(), putOf(kv(in(fmt.Sprint("k", i))), "v")).Abandon()
		},
		"the types of a PUT": func(f *fixture, i int) {
			req := cache.Request{Key: kv(fmt.Sprint("k", i)), ContentType: in("text/plain"), ContentEncoding: in("br")}
			if g := f.putCtx(context.Background(), req); g.err != nil {
				f.t.Error(g.err)
			}
		},
		"the condition of a PUT": func(f *fixture, i int) {
			req := cache.Request{Key: kv(fmt.Sprint("k", i)), IfNoneMatch: []string{in("*")}}
			if g := f.putCtx(context.Background(), req); g.err != nil {
				f.t.Error(g.err)
			}
		},
		"the cause of a failure": func(f *fixture, i int) {
			f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) {
				return cache.Loaded{}, cache.ErrOriginBadAnswer.Because(errors.New("malformed: " + strings.Repeat("x", large)))
			})
			f.get(doc(fmt.Sprint("k", i)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			do(f, times)
			before, charged := liveHeap(), f.Stats().Bytes
			for i := range times {
				do(f, i)
			}
			kept, charge := liveHeap()-before, f.Stats().Bytes-charged
			if kept > charge+4<<20 { // one in ten of the buffers would be 5 MiB
				t.Errorf("%d bytes are kept, %d charged", kept, charge)
			}
			runtime.KeepAlive(f)
		})
	}
}

// A load that runs on when its client has left keeps nothing of the client's request,
// and nothing of a write that was under way when it began.
func TestARunningLoadKeepsNothingOfARequest(t *testing.T) {
	f := setup(t)
	release := make(chan struct{})
	f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
		<-release
		return counting(n, l)
	})
	before := liveHeap()
	const large, times = 1 << 20, 50
	for i := range times {
		key := fmt.Sprint("k", i)
		buffer := key + strings.Repeat(".", large)
		abandon := func() {}
		if i%2 == 0 {
			abandon = f.begin(t.Context(), putOf(doc(buffer[:len(key)]), "v")).Abandon
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.getCtx(ctx, doc(buffer[:len(key)])) // it is cancelled
		}()
		for f.origin.loads(key) == 0 {
			runtime.Gosched()
		}
		cancel()
		<-done
		abandon()
	}
	kept := liveHeap() - before
	close(release)
	if kept > times*large/4 {
		t.Errorf("%d loads keep %d bytes", times, kept)
	}
}

// Each part of an entry counts to its size, whatever its length.
func TestEachPartOfAnEntryIsCounted(t *testing.T) {
	const n = 1000
	long := strings.Repeat("x", n)
	charged := func(t *testing.T, key string, e cache.Entry) (bytes int64) {
		synctest.Test(t, func(t *testing.T) {
			f := setup(t)
			f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) {
				return cache.Loaded{Entry: &e, Status: 200, Freshness: cache.Unsaid}, nil
			})
			f.get(doc(key))
			bytes = f.Stats().Bytes
		})
		return bytes
	}
	t.Run("a large value", func(t *testing.T) {
		const large = 100<<10 + 1
		if n := charged(t, "k", cache.Entry{Value: make([]byte, large)}); n < large || n > large+16<<10 {
			t.Errorf("%d bytes for %d", n, large)
		}
	})
	for name, e := range map[string]cache.Entry{
		"value": {Value: []byte(long)}, "type": {ContentType: long}, "encoding": {ContentEncoding: long},
		"last modified": {LastModified: long}, "the origin's tag": {OriginETag: long}, "a tag": {Tags: []string{long}},
		"a negative entry's tag": {Negative: true, Tags: []string{long}}, "key": {},
	} {
		t.Run(name, func(t *testing.T) {
			key, least := "k", int64(n)
			if name == "key" {
				key, least = long, n-8 // a key of one byte takes eight
			}
			if more := charged(t, key, e) - charged(t, "k", cache.Entry{Negative: e.Negative}); more < least || more > 2*n {
				t.Errorf("%d bytes for %d", more, n)
			}
		})
	}
}
