package cache_test

import (
	"bytes"
	"fmt"
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
		if _, err := f.Put(t.Context(), &cache.Request{Key: kv("k"), Value: roomy}); err != nil {
			t.Fatal(err)
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
