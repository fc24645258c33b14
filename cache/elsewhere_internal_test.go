package cache

import (
	"errors"
	"testing"
)

// A key has a state only while one of its gets waits at another node: there is no limit
// to the number of keys.
func TestKeysWithoutAWaitingGetAreForgotten(t *testing.T) {
	c := plainCache(t, Options{MaxWaiters: 3, MaxWaitersPerKey: 2})
	g, err := c.Group("kv")
	if err != nil {
		t.Fatal(err)
	}
	begin := func(key string) *Elsewhere {
		r := g.Read(key, false)
		return r.Elsewhere()
	}
	key := Key{Group: "kv", Key: "k"}
	waiting := func() int {
		s := c.flights(c.store.hash(key.Key))
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.elsewhereLocked(key)
	}
	var gets []*Elsewhere
	for i, want := range []error{nil, nil, ErrOverloaded} {
		e := begin("k")
		gets = append(gets, e)
		if err := e.Loading(1, false); !errors.Is(err, want) {
			t.Errorf("get %d: %v, want %v", i, err, want)
		}
	}
	if waiting() != 2 || c.waiters.Load() != 2 {
		t.Errorf("%d wait for the key, and %d in all, want 2", waiting(), c.waiters.Load())
	}
	for i, want := range []error{nil, ErrOverloaded, ErrOverloaded} { // there is no place left after the first
		e := begin("other")
		gets = append(gets, e)
		if err := e.Loading(1, false); !errors.Is(err, want) || c.waiters.Load() != 3 {
			t.Errorf("get %d of another key: %v, want %v; %d wait in all", i, err, want, c.waiters.Load())
		}
	}
	for _, e := range gets {
		e.End()
	}
	if n := c.keysWithState(); n != 0 || c.waiters.Load() != 0 {
		t.Errorf("%d keys have a state, and %d gets wait, when all have ended", n, c.waiters.Load())
	}
}
