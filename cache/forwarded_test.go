package cache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"kring/cache"
)

// told notes of which loads a get was told, and refuses it if it is to.
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

// serve has another node's get answered, and its answer delivered.
func (f *fixture) serve(w cache.Waiting, key cache.Key) got {
	a, err := f.Serve(context.Background(), &cache.Request{Op: cache.OpGet, Key: key, Waiting: w})
	f.Settle(a.Kind, true)
	return got{a, err}
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
		ask(4, "k") // and what it waited for is stored
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
		f := setup(t)
		f.origin.set(second, counting)
		refusing := &told{refuse: cache.ErrOverloaded}
		f.wantsError(f.serve(refusing, doc("k")), cache.ErrOverloaded, cache.KindRefused)
		answers := f.crowd(3, doc("k"))()
		if len(answers[cache.KindJoined]) != 3 || f.origin.loads("k") != 1 {
			t.Errorf("%+v, %d loads", answers, f.origin.loads("k"))
		}
	})
}

// A get that goes through another node is a waiter here from when it is told
// that it waits, to its end: not before, not twice, and not after it.
func TestWaitersThroughAnotherNodeAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{}
		f := setup(t, routed(r), func(o *cache.Options) { o.MaxWaiters = 2 })
		begin, end := make(chan cache.Waiting), make(chan struct{})
		r.forward = func(_ context.Context, req *cache.Request) (cache.Answer, error) {
			begin <- req.Waiting
			<-end
			return cache.Answer{Kind: cache.KindPeer, Node: "n2", Entry: &cache.Entry{}}, nil
		}
		for range 3 {
			var waits []cache.Waiting
			var done []func() map[cache.Kind][]got
			for range 4 { // none of them waits yet
				done = append(done, f.crowd(1, doc("k")))
				waits = append(waits, <-begin)
			}
			for i, want := range []error{nil, nil, cache.ErrOverloaded, cache.ErrOverloaded} {
				if err := waits[i].Loading(uint64(i), false); !errors.Is(err, want) {
					t.Errorf("the get %d: %v, want %v", i, err, want)
				}
			}
			if err := waits[0].Loading(7, false); err != nil {
				t.Error("told of its second load:", err)
			}
			for range done {
				end <- struct{}{}
			}
			for _, answers := range done {
				answers()
			}
			for _, w := range waits {
				if err := w.Loading(8, false); err != nil {
					t.Error("told when it is over:", err)
				}
			}
		}
	})
}

func TestHowAGetWasSharedOrRefusedElsewhereIsOnTheBooksAsThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &router{}
		f := setup(t, routed(r))
		entry := &cache.Entry{Value: []byte("theirs")}
		r.forward = func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindJoined, OwnerKind: cache.KindLoad, Node: "n2", Entry: entry}, nil
		}
		if g := f.get(doc("k")); g.Kind != cache.KindJoined || g.OwnerKind != cache.KindLoad || g.Node != "n2" || g.Entry != entry {
			t.Errorf("%+v", g)
		}
		r.forward = func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindRefused}, cache.ErrOverloaded
		}
		g := f.get(doc("k"))
		f.wantsError(g, cache.ErrOverloaded, cache.KindRefused)
		if g.Node != "n1" || g.OwnerKind != cache.KindRefused {
			t.Errorf("%+v", g)
		}
		if s := f.Stats(); s.Gets != 2 || s.Joined != 1 || s.Refused != 1 || s.Peer != 0 {
			t.Errorf("%+v", s)
		}
	})
}
