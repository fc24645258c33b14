package cache_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"kring/cache"
)

// Any bytes are either refused, or a key that equals no other key.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"", "k", ".", "..", "a/b", "//a", "a b", "a+b", "a%2Fb", "\x00", "a\nb", "\xff", "🔑", "\u0085", strings.Repeat("k", 1025)} {
		f.Add(key, "k")
	}
	c, err := cache.New(cache.Options{Node: "n1", Config: cache.DefaultConfig(), Groups: []cache.GroupConfig{{Name: "kv"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := c.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, a, b string) {
		c.DropGroup("kv")
		_, err := write(t.Context(), c, cache.OwnerTerm, cache.Request{Op: cache.OpPut, Key: kv(a), Value: []byte(a)})
		if refused := c.CheckKey(kv(a)); (err == nil) != (refused == nil) || err != nil && err.Error() != refused.Error() {
			t.Fatalf("put: %v, check: %v", err, refused)
		}
		if err != nil {
			if !errors.Is(err, cache.ErrBadKey) && !errors.Is(err, cache.ErrKeyTooLong) {
				t.Fatal(err)
			}
			return
		}
		if !utf8.ValidString(a) || a == "" || len(a) > 1024 {
			t.Fatalf("accepted %q", a)
		}
		if got, err := get(t.Context(), c, cache.OwnerTerm, kv(a), false); err != nil || string(got.Entry.Value) != a {
			t.Fatalf("%q: %+v, %v", a, got, err)
		}
		if got, err := get(t.Context(), c, cache.OwnerTerm, kv(b), false); a != b && err == nil && !got.Entry.Negative {
			t.Fatalf("%q answers for %q", a, b)
		}
	})
}
