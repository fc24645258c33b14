package cache

import (
	"errors"
	"testing"
)

// A key is counted among those that are waited for at another node for as long
// as a get waits, and no longer: there is no end of keys.
func TestKeysThatNobodyWaitsForAreForgotten(t *testing.T) {
	c, err := New(Options{Node: "n1", Config: DefaultConfig(), Groups: []GroupConfig{{Name: "kv"}}, MaxWaiters: 3, MaxWaitersPerKey: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	key := Key{Group: "kv", Key: "k"}
	h := c.store.hash(key.Key)
	away := func() int { return c.stripe(h).away[key] }
	var gets []*forwarded
	for i, want := range []error{nil, nil, ErrOverloaded} {
		f := &forwarded{c: c, h: h, req: Request{Op: OpGet, Key: key}}
		gets = append(gets, f)
		if err := f.Loading(1, false); !errors.Is(err, want) {
			t.Errorf("get %d: %v, want %v", i, err, want)
		}
	}
	if away() != 2 || c.waiters.Load() != 2 {
		t.Errorf("%d wait for the key, and %d in all, want 2", away(), c.waiters.Load())
	}
	for i, want := range []error{nil, ErrOverloaded, ErrOverloaded} { // there is no place left after the first
		other := Key{Group: "kv", Key: "other"}
		f := &forwarded{c: c, h: c.store.hash(other.Key), req: Request{Op: OpGet, Key: other}}
		gets = append(gets, f)
		if err := f.Loading(1, false); !errors.Is(err, want) || c.waiters.Load() != 3 {
			t.Errorf("get %d of another key: %v, want %v; %d wait in all", i, err, want, c.waiters.Load())
		}
	}
	for _, f := range gets {
		f.end()
	}
	if n := len(c.stripe(h).away); n != 0 || c.waiters.Load() != 0 {
		t.Errorf("%d keys are kept, and %d gets wait, when all have ended", n, c.waiters.Load())
	}
}
