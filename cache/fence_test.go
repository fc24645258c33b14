package cache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

// In groupcache-go v3 a load that is in flight stores the old value after a remove.
func TestWriteDuringALoad(t *testing.T) {
	writes := []struct {
		name  string
		write func(f *fixture)
		after string // what a get after the write brings
		kind  cache.Kind
	}{
		{"put", func(f *fixture) { f.put(doc("k"), "new") }, "new", cache.KindHit},
		{"delete", func(f *fixture) { f.remove(doc("k")) }, "k#2", cache.KindLoad},
		{"drop of the group", func(f *fixture) { f.DropGroup("docs") }, "k#2", cache.KindLoad},
		{"drop by tag", func(f *fixture) { f.DropTags("docs", []string{"a"}) }, "k#2", cache.KindLoad},
		{"delete, then put", func(f *fixture) { f.remove(doc("k")); f.put(doc("k"), "new") }, "new", cache.KindHit},
	}
	for _, w := range writes {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t)
				f.origin.latency = second
				before := f.crowd(5, doc("k"))
				pass(second / 2)
				w.write(f)
				f.wants(f.get(doc("k")), w.after, w.kind)
				for _, gs := range before() {
					for _, g := range gs {
						f.wants(g, "k#1", g.Kind)
					}
				}
				pass(5 * second)
				f.wants(f.get(doc("k")), w.after, cache.KindHit)
			})
		})
	}
}

func TestWriteOfAnotherGroupMarksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = second
		before := f.crowd(1, doc("k"))
		synctest.Wait()
		f.DropGroup("kv")
		f.put(kv("k"), "other")
		f.remove(kv("k"))
		f.wants(before()[cache.KindLoad][0], "k#1", cache.KindLoad)
		f.wants(f.get(doc("k")), "k#1", cache.KindHit)
	})
}

func TestOneLoadRunsAndAtMostOneIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = second
		first := f.crowd(3, doc("k"))
		synctest.Wait()
		f.remove(doc("k"))
		second := f.crowd(3, doc("k"))
		synctest.Wait()
		f.remove(doc("k")) // the next load has not begun, so its value will be new enough
		third := f.crowd(3, doc("k"))
		synctest.Wait()
		for value, answers := range map[string]func() map[cache.Kind][]got{"k#1": first, "k#2": second} {
			by := answers()
			if len(by[cache.KindLoad]) != 1 {
				t.Errorf("%s: %v", value, by)
			}
			for _, gs := range by {
				for _, g := range gs {
					f.wants(g, value, g.Kind)
				}
			}
		}
		for _, g := range third()[cache.KindJoined] {
			f.wants(g, "k#2", cache.KindJoined)
		}
		if n := f.origin.loads("k"); n != 2 {
			t.Errorf("%d loads", n)
		}
	})
}

func TestTheNextLoadFindsAValueThatWasPutMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = second
		before := f.crowd(1, doc("k"))
		synctest.Wait()
		f.remove(doc("k"))
		waiting := f.crowd(3, doc("k"))
		synctest.Wait()
		f.put(doc("k"), "new")
		by := waiting()
		if len(by[cache.KindHit]) != 1 || len(by[cache.KindJoined]) != 2 {
			t.Errorf("answers by kind: %v", by)
		}
		for _, gs := range by {
			for _, g := range gs {
				f.wants(g, "new", g.Kind)
			}
		}
		before()
		if n := f.origin.loads("k"); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}

func TestAMarkedLoadWithoutWaitersIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = 5 * second
		leave := func(after time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			f.wantsError(f.getCtx(ctx, doc("k")), cache.ErrOriginTimeout, cache.KindJoined)
		}
		leave(second) // the load goes on: its value will be stored
		f.remove(doc("k"))
		synctest.Wait()
		began := time.Now()
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
		if waited := time.Since(began); waited != 5*second {
			t.Errorf("waited %v: the marked load was waited for", waited)
		}
		// The other way round: the load is marked first, then its waiter leaves.
		f.remove(doc("k"))
		done := make(chan struct{})
		go func() { leave(2 * second); close(done) }()
		pass(second)
		f.remove(doc("k"))
		<-done
		f.wants(f.get(doc("k")), "k#4", cache.KindLoad)
	})
}

func TestNextLoadIsForgottenWhenItsWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = 5 * second
		first := f.crowd(1, doc("k"))
		synctest.Wait()
		f.remove(doc("k"))
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		f.wantsError(f.getCtx(ctx, doc("k")), cache.ErrOriginTimeout, cache.KindJoined)
		first()
		pass(10 * second)
		if n := f.origin.loads("k"); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}

// Once a write is acknowledged, no get returns an older value, whatever runs at the same
// time.
func TestNoGetReturnsAnOlderValueThanAnAcknowledgedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.TTL, g.StaleWhileRevalidate = 20*time.Millisecond, 20*time.Millisecond }))
		versions := make(chan int, 1) // the origin's version
		versions <- 0
		acked := make(chan int, 1)
		acked <- 0
		f.origin.set(0, func(_ int, l *cache.Load) (cache.Loaded, error) {
			v := <-versions
			versions <- v
			<-time.After(7 * time.Millisecond)
			return value(fmt.Sprint(v)), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*second)
		defer cancel()
		done := make(chan struct{})
		for i := range 8 {
			go func() {
				defer func() { done <- struct{}{} }()
				for ctx.Err() == nil {
					least := <-acked
					acked <- least
					g := f.get(doc("k"))
					if g.err != nil {
						t.Error(g.err)
						return
					}
					var v int
					if _, err := fmt.Sscan(string(g.Entry.Value), &v); err != nil || v < least {
						t.Errorf("got %q after %d was acknowledged", g.Entry.Value, least)
						return
					}
					<-time.After(time.Duration(i+1) * time.Millisecond)
				}
			}()
		}
		for ctx.Err() == nil {
			v := <-versions
			versions <- v
			v++
			changes := func() { // what the origin answers
				<-versions
				versions <- v
			}
			slowly := func(req cache.Request) {
				pause := time.Duration(v%7) * time.Millisecond
				w := f.begin(t.Context(), req)
				<-time.After(pause)
				changes()
				<-time.After(pause)
				f.commit(w)
			}
			if v%5 < 3 {
				changes()
			}
			switch v % 5 {
			case 0:
				f.remove(doc("k"))
			case 1:
				f.put(doc("k"), fmt.Sprint(v))
			case 2:
				f.DropGroup("docs")
			case 3:
				slowly(cache.Request{Op: cache.OpDelete, Key: doc("k")})
			case 4:
				slowly(putOf(doc("k"), fmt.Sprint(v)))
			}
			<-acked
			acked <- v
			<-time.After(5 * time.Millisecond)
		}
		for range 8 {
			<-done
		}
	})
}
