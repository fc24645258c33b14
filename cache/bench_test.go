package cache_test

import (
	"context"
	"fmt"
	"testing"

	"kring/cache"
)

func benchCache(b *testing.B) (*cache.Cache, []cache.Key) {
	b.Helper()
	c, err := cache.New(cache.Options{
		Node: "n", Config: cache.DefaultConfig(),
		Groups: []cache.GroupConfig{{Name: "kv"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	keys := make([]cache.Key, 1<<14)
	for i := range keys {
		keys[i] = cache.Key{Group: "kv", Key: fmt.Sprintf("user:%d", i)}
		if _, err := write(b.Context(), c, cache.OwnerTerm, cache.Request{Op: cache.OpPut, Key: keys[i], Value: make([]byte, 256)}); err != nil {
			b.Fatal(err)
		}
	}
	return c, keys
}

func BenchmarkHit(b *testing.B) {
	c, keys := benchCache(b)
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if a, err := get(context.Background(), c, cache.OwnerTerm, keys[i&(len(keys)-1)], false); err != nil || a.Kind != cache.KindHit {
				b.Fatal(a, err)
			}
			i++
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				if a, err := get(context.Background(), c, cache.OwnerTerm, keys[i*7&(len(keys)-1)], false); err != nil || a.Kind != cache.KindHit {
					b.Fatal(a, err)
				}
			}
		})
	})
	b.Run("one key", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if a, err := get(context.Background(), c, cache.OwnerTerm, keys[0], false); err != nil || a.Kind != cache.KindHit {
					b.Fatal(a, err)
				}
			}
		})
	})
}

func BenchmarkPut(b *testing.B) {
	c, keys := benchCache(b)
	value := make([]byte, 256)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := write(context.Background(), c, cache.OwnerTerm, cache.Request{Op: cache.OpPut, Key: keys[i&(len(keys)-1)], Value: value}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
