package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

func TestManyGetsOfAColdKeyAreOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = 50 * time.Millisecond
		by := f.crowd(200, doc("k"))()
		if len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 199 {
			t.Errorf("%d loads, %d joined", len(by[cache.KindLoad]), len(by[cache.KindJoined]))
		}
		if n := f.origin.loads("k"); n != 1 {
			t.Errorf("%d loads", n)
		}
		f.wants(f.get(doc("k")), "k#1", cache.KindHit)
	})
}

// In groupcache the first caller's context is the load's, and its cancel is an error for
// all.
func TestFirstOfFiftyWaitersLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = second
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan got)
		go func() { first <- f.getCtx(ctx, doc("k")) }()
		synctest.Wait()
		others := f.crowd(49, doc("k"))
		synctest.Wait()
		cancel()
		f.wantsError(<-first, context.Canceled, cache.KindJoined)
		by := others()
		if len(by[cache.KindJoined]) != 49 {
			t.Fatalf("answers by kind: %v", by)
		}
		for _, g := range by[cache.KindJoined] {
			f.wants(g, "k#1", cache.KindJoined)
		}
		if n := f.origin.loads("k"); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}

func TestWaiterLeavesAtItsDeadlineAndTheFillLands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = 7 * second
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		began := time.Now()
		f.wantsError(f.getCtx(ctx, doc("k")), cache.ErrOriginTimeout, cache.KindJoined)
		if waited := time.Since(began); waited != second {
			t.Errorf("waited %v", waited)
		}
		pass(7 * second)
		f.wants(f.get(doc("k")), "k#1", cache.KindHit)
	})
}

func TestLoadEndsAtTheGroupsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.LoadTimeout = 2 * second }))
		f.origin.latency = time.Hour
		began := time.Now()
		f.wantsError(f.get(doc("k")), cache.ErrOriginTimeout, cache.KindLoad)
		if waited := time.Since(began); waited != 2*second {
			t.Errorf("waited %v", waited)
		}
	})
}

// In groupcache the key hangs for ever after a recovered panic. With DoChan of x/sync
// the process dies.
func TestPanicInALoadIsAnErrorForAllAndTheKeyWorksAtOnce(t *testing.T) {
	ends := map[string]func(){
		"panic":  func() { panic("broken loader") },
		"goexit": runtime.Goexit,
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t)
				f.origin.set(second, func(n int, l *cache.Load) (cache.Loaded, error) {
					if n == 1 {
						end()
					}
					return counting(n, l)
				})
				by := f.crowd(10, doc("k"))()
				if len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 9 {
					t.Errorf("answers by kind: %v", by)
				}
				for _, gs := range by {
					for _, g := range gs {
						f.wantsError(g, cache.ErrInternal, g.Kind)
					}
				}
				f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
			})
		})
	}
}

func TestErrorsAreSharedAndRememberedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(50*time.Millisecond, failing)
		by := f.crowd(25, doc("k"))()
		f.wantsError(by[cache.KindLoad][0], errOrigin, cache.KindLoad)
		for range 25 {
			f.wantsError(f.get(doc("k")), errOrigin, cache.KindJoined)
		}
		if n := f.origin.loads("k"); n != 1 {
			t.Errorf("50 clients of a failing origin cost %d loads", n)
		}
		f.origin.set(0, counting)
		pass(second) // the longest that an error is remembered
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
	})
}

func TestTheMemoryOfErrorsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(0, failing)
		const keys = 20000
		for i := range keys {
			f.wantsError(f.get(doc(fmt.Sprint(i))), errOrigin, cache.KindLoad)
		}
		again := 0
		for i := keys - 1; i >= 0; i-- { // the newest first: each get may push out another
			if f.get(doc(fmt.Sprint(i))).Kind == cache.KindJoined {
				again++
			}
		}
		if again == 0 || again > 64*64 {
			t.Errorf("%d of %d errors were remembered", again, keys)
		}
	})
}

// Errors that say nothing of the origin are not remembered.
func TestErrorsThatAreNotRemembered(t *testing.T) {
	for _, err := range []error{cache.ErrOverloaded, cache.ErrNoEligibleEndpoint, cache.ErrInternal, cache.ErrBadKey} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t)
				f.origin.refuses(err)
				f.wantsError(f.get(doc("k")), err, cache.KindRefused)
				f.origin.refuses(nil)
				f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
			})
		})
	}
}

func TestOtherErrorsBecomeThisPackagesErrors(t *testing.T) {
	foreign := errors.New("broken pipe")
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) { return cache.Loaded{}, foreign })
		g := f.get(doc("k"))
		f.wantsError(g, cache.ErrOriginFailed, cache.KindLoad)
		f.wantsError(g, foreign, cache.KindLoad)
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) {
			return cache.Loaded{}, fmt.Errorf("dial: %w", context.DeadlineExceeded)
		})
		f.wantsError(f.get(doc("slow")), cache.ErrOriginTimeout, cache.KindLoad)
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) { return cache.Loaded{}, nil })
		f.wantsError(f.get(doc("empty")), cache.ErrInternal, cache.KindLoad)
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) { return cache.Loaded{NotModified: true}, nil })
		f.wantsError(f.get(doc("unasked 304")), cache.ErrOriginBadAnswer, cache.KindLoad)
	})
}

func TestWaitersAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(o *cache.Options) { o.MaxWaiters = 10 })
		f.origin.latency = second
		by := f.crowd(15, doc("k"))()
		if len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 9 || len(by[cache.KindRefused]) != 5 {
			t.Errorf("answers by kind: %v", by)
		}
		for _, g := range by[cache.KindRefused] {
			f.wantsError(g, cache.ErrOverloaded, cache.KindRefused)
		}
		f.wants(f.get(doc("other")), "other#1", cache.KindLoad) // no place is taken any more
	})
}

// One slow key must not keep all others from being loaded.
func TestWaitersOfOneKeyAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(o *cache.Options) { o.MaxWaiters, o.MaxWaitersPerKey = 10, 6 })
		f.origin.latency = second
		slow := f.crowd(15, doc("slow"))
		synctest.Wait()
		f.wants(f.get(doc("other")), "other#1", cache.KindLoad)
		by := slow()
		if len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 5 || len(by[cache.KindRefused]) != 9 {
			t.Errorf("answers by kind: %v", by)
		}
		for _, g := range by[cache.KindRefused] {
			f.wantsError(g, cache.ErrOverloaded, cache.KindRefused)
		}
	})
}

func TestCloseCancelsLoadsAndWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = 5 * second
		waiting := f.crowd(10, doc("k"))
		synctest.Wait()
		f.remove(doc("k"))
		later := f.crowd(10, doc("k")) // waits for the next load
		synctest.Wait()
		began := time.Now()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		for _, answers := range []func() map[cache.Kind][]got{waiting, later} {
			for _, gs := range answers() {
				for _, g := range gs {
					f.wantsError(g, cache.ErrDraining, g.Kind)
				}
			}
		}
		f.wantsError(f.get(doc("k")), cache.ErrDraining, cache.KindRefused)
		if err := f.removeCtx(t.Context(), cache.Request{Key: doc("k")}); !errors.Is(err, cache.ErrDraining) || !f.Draining() {
			t.Errorf("delete: %v", err)
		}
	})
}

func TestAGetWhoseContextHasEndedStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.wantsError(f.getCtx(ctx, doc("k")), context.Canceled, cache.KindRefused)
		if n := f.origin.total(); n != 0 {
			t.Errorf("%d loads", n)
		}
	})
}

// Second tries, and loads whose starter has left, count as refreshes.
func TestSecondTriesAndAbandonedLoadsAreRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(o *cache.Options) {
			inner := o.Loader
			o.Loader = cache.LoaderFunc(func(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
				if l.Key.Key == "twice" {
					if _, err := inner.Load(ctx, l); err != nil {
						return cache.Loaded{}, err
					}
				}
				return inner.Load(ctx, l)
			})
		})
		f.wants(f.get(doc("twice")), "twice#2", cache.KindLoad)
		f.origin.latency = second
		ctx, cancel := context.WithTimeout(t.Context(), second/2)
		defer cancel()
		f.getCtx(ctx, doc("orphan"))
		pass(second)
		if s := f.Stats(); s.Loads != 1 || s.Refreshes != 2 || s.Joined != 1 {
			t.Errorf("%+v", s)
		}
	})
}
