package cache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

// answering fails with the verdict and the wait that an origin's answer gives.
func answering(v cache.Verdict, retryAfter time.Duration) func(int, *cache.Load) (cache.Loaded, error) {
	return func(int, *cache.Load) (cache.Loaded, error) {
		return cache.Loaded{Status: 403, Endpoint: "a"}, errOrigin.Saying(v, retryAfter)
	}
}

// An answer for the key that is no value ends the stored value, in any state and by any
// load. Clients then get the answer that they would get if nothing had been stored.
func TestAnAnswerThatEndsTheValueRemovesIt(t *testing.T) {
	ended := answering(cache.ValueEnded, 0)
	gone := func(f *fixture) {
		f.t.Helper()
		if _, ok := f.Copy(doc("k")); ok || f.Stats().Entries != 0 {
			f.t.Error("the value is still there")
		}
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindJoined) // the error is remembered
		pass(second)
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
		f.origin.set(0, counting)
		pass(second)
		if g := f.get(doc("k")); g.err != nil || g.Kind != cache.KindLoad {
			f.t.Errorf("once the origin has it again: %+v", g)
		}
	}
	for name, story := range map[string]func(f *fixture){
		"while it may be served and refreshed": func(f *fixture) {
			pass(12 * second)
			f.origin.set(0, ended)
			f.wants(f.get(doc("k")), "k#1", cache.KindStale) // the refresh runs in the background
			synctest.Wait()
		},
		"while it may be served if the origin fails": func(f *fixture) {
			pass(20 * second)
			f.origin.set(second, ended)
			by := f.crowd(10, doc("k"))()
			if len(by[cache.KindStale]) > 0 || len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 9 {
				f.t.Errorf("%v", by)
			}
			f.origin.set(0, ended)
		},
		"after failures": func(f *fixture) {
			pass(20 * second)
			f.origin.set(0, failing)
			f.wants(f.get(doc("k")), "k#1", cache.KindStale)
			f.origin.set(0, ended)
			pass(second)
			f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
		},
		"while it is fresh, and refreshed early": func(f *fixture) {
			pass(9 * second)
			f.origin.set(0, ended)
			f.wants(f.get(doc("k")), "k#1", cache.KindHit)
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(short), group(func(g *cache.GroupConfig) { g.RefreshAhead = 0.2 }))
				f.get(doc("k"))
				story(f)
				gone(f)
			})
		})
	}
	t.Run("a value of a PUT", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := setup(t, group(short))
			f.put(doc("k"), "put")
			pass(20 * second)
			f.origin.set(0, ended)
			f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
			gone(f)
		})
	})
	t.Run("a missing key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := setup(t, group(short), group(func(g *cache.GroupConfig) { g.NegativeTTL = second }))
			f.origin.set(0, missing)
			f.get(doc("k"))
			pass(second)
			f.origin.set(0, ended)
			f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
			gone(f)
		})
	})
	t.Run("one that can be revalidated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := setup(t, group(short))
			f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
				loaded, err := counting(n, l)
				loaded.Entry.OriginETag = `"v"`
				return loaded, err
			})
			f.get(doc("k"))
			pass(500 * second)
			f.origin.set(0, ended)
			f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
			gone(f)
		})
	})
}

// A value that was PUT while a load ran is newer than the load's answer.
func TestALoadFromBeforeAWriteDoesNotEndItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.origin.set(second, answering(cache.ValueEnded, 0))
		load := f.crowd(1, doc("k"))
		pass(second / 2)
		f.put(doc("k"), "put")
		load()
		f.wants(f.get(doc("k")), "put", cache.KindHit)
	})
}

// An origin that refuses says nothing of the key: the value stays. The value is not
// served in place of the refusal, except while stale-while-revalidate allows it.
func TestARefusalLeavesTheValueAndIsNotReplacedByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.get(doc("k"))
		f.origin.set(0, answering(cache.OriginRefuses, 0))
		pass(10 * second)
		for range 4 { // to the end of stale-while-revalidate
			f.wants(f.get(doc("k")), "k#1", cache.KindStale)
			pass(second)
		}
		pass(20 * second)
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindJoined)
		loads := f.origin.loads("k")
		pass(second)
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad) // without a back-off: no value may be served meanwhile
		if n := f.origin.loads("k"); n != loads+1 {
			t.Errorf("%d loads", n-loads)
		}
		f.origin.set(0, failing)
		pass(second)
		f.wants(f.get(doc("k")), "k#1", cache.KindStale) // it was kept
	})
}

// The node does not ask an origin again for as long as that wants. Meanwhile clients are
// told the rest of that time, or get the stale value where that is allowed.
func TestRetryAfterIsRespected(t *testing.T) {
	wantsWait := func(f *fixture, wait time.Duration, kind cache.Kind) {
		f.t.Helper()
		g := f.get(doc("k"))
		f.wantsError(g, errOrigin, kind)
		var known *cache.Error
		if !errors.As(g.err, &known) || known.RetryAfter != wait {
			f.t.Errorf("%+v, want a wait of %v", known, wait)
		}
	}
	for name, verdict := range map[string]cache.Verdict{"refuses": cache.OriginRefuses, "is down": cache.OriginDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(short))
				f.origin.set(0, answering(verdict, 30*second))
				wantsWait(f, 30*second, cache.KindLoad)
				pass(20 * second)
				wantsWait(f, 10*second, cache.KindJoined)
				pass(10*second - 1)
				wantsWait(f, 1, cache.KindJoined)
				f.origin.set(0, counting)
				f.wants(f.get(doc("other")), "other#1", cache.KindLoad) // the wait is this key's alone
				pass(1)
				f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
				pass(10 * second)
				f.origin.set(0, answering(verdict, 30*second))
				for range 4 {
					f.wants(f.get(doc("k")), "k#2", cache.KindStale)
					pass(second)
				}
				pass(second)
				if g := f.get(doc("k")); (g.Kind == cache.KindStale) != (verdict == cache.OriginDown) {
					t.Errorf("after the refresh was refused: %+v", g)
				}
				if n := f.origin.loads("k"); n != 3 {
					t.Errorf("%d loads, want none in the 30 s after the third", n)
				}
				f.origin.set(0, counting)
				pass(26 * second)
				if f.get(doc("k")); f.origin.loads("k") != 4 {
					t.Errorf("%d loads once the time is over", f.origin.loads("k"))
				}
			})
		})
	}
	t.Run("until a write, or a purge of the group", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := setup(t)
			f.origin.set(0, answering(cache.OriginRefuses, 30*second))
			f.get(doc("k"))
			f.remove(doc("k"))
			wantsWait(f, 30*second, cache.KindLoad)
			f.DropGroup("docs")
			wantsWait(f, 30*second, cache.KindLoad)
		})
	})
}
