package cache_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"kring/cache"
)

// told is a get's Waiting. It notes the loads that the get waits for, and may refuse
// them.
type told struct {
	mu      sync.Mutex
	loads   []uint64
	starter []bool
	refuse  error
}

func (w *told) Loading(load uint64, starter bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads, w.starter = append(w.loads, load), append(w.starter, starter)
	return w.refuse
}

func TestAGetIsToldWhichLoadItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(second, counting)
		gets := make([]told, 5)
		var running sync.WaitGroup
		ask := func(i int, key string) {
			running.Go(func() { f.serve(&gets[i], doc(key)) })
			synctest.Wait()
		}
		ask(0, "k")
		ask(1, "k")
		ask(2, "other")
		f.remove(doc("k"))
		ask(3, "k") // the load that runs is marked by now
		running.Wait()
		ask(4, "k") // the value of that load is stored
		running.Wait()
		for i, want := range []int{1, 1, 1, 1, 0} {
			if len(gets[i].loads) != want {
				t.Fatalf("get %d was told of %d loads, want %d", i, len(gets[i].loads), want)
			}
		}
		first, joined, other, later := gets[0].loads[0], gets[1].loads[0], gets[2].loads[0], gets[3].loads[0]
		if joined != first || other == first || later == first || later == other {
			t.Errorf("loads %d, %d; of another key %d; after a write %d", first, joined, other, later)
		}
		if !gets[0].starter[0] || gets[1].starter[0] || !gets[2].starter[0] || !gets[3].starter[0] {
			t.Errorf("starters: %v %v %v %v", gets[0].starter, gets[1].starter, gets[2].starter, gets[3].starter)
		}
	})
}

func TestNoTwoNodesNumberTheirLoadsAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b told
		setup(t).serve(&a, doc("k"))
		setup(t).serve(&b, doc("k"))
		if len(a.loads) != 1 || len(b.loads) != 1 || a.loads[0] == b.loads[0] {
			t.Errorf("%v, %v", a.loads, b.loads)
		}
	})
}

func TestAGetThatMayNotWaitLeavesTheLoadToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.origin.set(second, counting)
		refusing := &told{refuse: cache.ErrOverloaded}
		f.wantsError(f.serve(refusing, doc("k")), cache.ErrOverloaded, cache.KindRefused)
		answers := f.crowd(3, doc("k"))()
		if len(answers[cache.KindJoined]) != 3 || f.origin.loads("k") != 1 {
			t.Errorf("%+v, %d loads", answers, f.origin.loads("k"))
		}
		pass(20 * second) // by now a stale value may be served in place of an error
		refusing = &told{refuse: errors.New("the link is broken")}
		if g := f.serve(refusing, doc("k")); g.err != nil || !g.StaleError || g.Kind != cache.KindStale {
			t.Errorf("%+v", g)
		}
		pass(second)
	})
}

// A get that another node answers is a waiter here from when it is told that it waits
// until it ends. It counts neither before, nor twice, nor afterwards.
func TestWaitersAtAnotherNodeAreCounted(t *testing.T) {
	f := setup(t, func(o *cache.Options) { o.MaxWaiters = 2 })
	g, err := f.Group("docs")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var waits []*cache.Elsewhere
		for range 4 { // none of them waits yet
			r := g.Read("k", false)
			waits = append(waits, r.Elsewhere())
		}
		for i, want := range []error{nil, nil, cache.ErrOverloaded, cache.ErrOverloaded} {
			if err := waits[i].Loading(uint64(i), false); !errors.Is(err, want) {
				t.Errorf("the get %d: %v, want %v", i, err, want)
			}
		}
		for i, what := range map[int]string{0: "that waits", 2: "that was refused"} {
			if err := waits[i].Loading(7, false); err != nil {
				t.Errorf("a get %s, told of its second load: %v", what, err)
			}
		}
		for _, w := range waits {
			w.End()
		}
		for _, w := range waits {
			if err := w.Loading(8, false); err != nil {
				t.Error("told when it has ended:", err)
			}
			w.End()
		}
	}
}

// Gets that wait here and gets that wait at another node share the same places.
func TestWaitersHereAndAtAnotherNodeAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(o *cache.Options) { o.MaxWaiters = 2 })
		f.origin.set(second, counting)
		g, err := f.Group("docs")
		if err != nil {
			t.Fatal(err)
		}
		r := g.Read("there", false)
		there := r.Elsewhere()
		if err := there.Loading(1, true); err != nil {
			t.Fatal(err)
		}
		here := f.crowd(2, doc("here"))
		synctest.Wait()
		if by := here(); len(by[cache.KindLoad]) != 1 || len(by[cache.KindRefused]) != 1 {
			t.Errorf("answers by kind: %v", by)
		}
		there.End()
		if by := f.crowd(2, doc("more"))(); len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 1 {
			t.Errorf("answers by kind, when the other get has ended: %v", by)
		}
	})
}

// A get may be told that it waits at the moment when it ends. It leaves no place taken.
func TestAGetThatEndsWhileItIsToldGivesItsPlaceBack(t *testing.T) {
	f := setup(t, func(o *cache.Options) { o.MaxWaiters = 1 })
	g, err := f.Group("docs")
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		r := g.Read("k", false)
		w := r.Elsewhere()
		var ready atomic.Int32 // so that both begin at the same time
		together := func(do func()) func() {
			return func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
				do()
			}
		}
		var both sync.WaitGroup
		both.Go(together(func() {
			if err := w.Loading(1, false); err != nil {
				t.Errorf("there was no place: %v", err)
			}
		}))
		both.Go(together(w.End))
		both.Wait()
	}
}
