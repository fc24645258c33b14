package peers

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"kring/cache"
	"kring/link"
	"kring/peers/memnet"
)

// waiters are calls on a link that nobody reads or writes.
func waiters(t *testing.T) (waiter func() *call) {
	t.Helper()
	near, _ := net.Pipe()
	p, _ := pair(t, memnet.New())
	l := &outgoing{pe: p.others["n1"], maxValue: 1 << 20}
	claim := &link.Claim{}
	claim.MaxCalls = 100
	l.Outgoing = link.NewOutgoing(&p.node, claim, near, bufio.NewReader(near), l)
	return func() *call {
		c, err := l.begin(t.Context(), getOf("k"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// took is what a call was given: "" while it waits.
func (c *call) took() string {
	select {
	case <-c.Done():
	default:
		return ""
	}
	if c.Err() != nil {
		return c.Err().Error()
	}
	return c.taken.Answer.Node
}

func answered(by string) Reply { return Reply{Answer: cache.Answer{Node: by}} }

func TestSharing(t *testing.T) {
	const seven, eight = 7, 8
	type world struct {
		s       sharing
		a, b, c *call
	}
	for name, test := range map[string]struct {
		steps   func(w *world)
		a, b, c string // what the three took
	}{
		"those that wait for one load take one answer": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.join(w.c, seven, false)
			w.s.end(w.a, answered("n1"), nil)
		}, "", "n1", "n1"},
		"those that wait for another load do not": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, eight, false)
			w.s.join(w.c, eight, false)
			w.s.end(w.a, answered("n1"), nil)
		}, "", "", ""},
		"an error is shared likewise": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.end(w.a, Reply{}, errors.New("failed"))
		}, "", "failed", ""},
		"a call that comes when it is over goes on": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.end(w.a, answered("n1"), nil)
			w.s.join(w.b, seven, false)
			w.s.join(w.c, seven, false)
			w.s.end(w.b, answered("n2"), nil)
		}, "", "", "n2"},
		"the call that started the load is not handed over": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, true)
			w.s.join(w.c, seven, false)
			w.s.end(w.b, answered("n1"), nil)
		}, "", "", "n1"},
		"the end of a call that was replaced leaves its successor joinable": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, true)
			w.s.end(w.a, answered("n2"), nil)
			w.s.join(w.c, seven, false)
			w.s.end(w.b, answered("n1"), nil)
		}, "", "", "n1"},
		"a call that is told another load keeps those that joined it": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.join(w.a, eight, false)
			w.s.join(w.c, eight, false)
			w.s.end(w.a, answered("n1"), nil)
		}, "", "n1", "n1"},
		"the load that it was told before is not joined any more": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.a, eight, false)
			w.s.join(w.c, seven, false)
			w.s.end(w.a, answered("n1"), nil)
		}, "", "", ""},
		"a get that has left takes nothing": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.join(w.c, seven, false)
			w.s.leave(w.b, context.Canceled)
			w.s.end(w.a, answered("n1"), nil)
		}, "", "", "n1"},
		"a call told the same load twice is the one that waits": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.end(w.a, answered("n1"), nil)
		}, "", "n1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			waiter := waiters(t)
			w := &world{s: sharing{loads: map[uint64]*shared{}}, a: waiter(), b: waiter(), c: waiter()}
			test.steps(w)
			got := []string{w.a.took(), w.b.took(), w.c.took()}
			if want := []string{test.a, test.b, test.c}; !slices.Equal(got, want) {
				t.Errorf("took %q, want %q", got, want)
			}
			for _, c := range []*call{w.a, w.b, w.c} {
				w.s.end(c, Reply{}, nil)
			}
			if len(w.s.loads) != 0 {
				t.Errorf("%d loads are remembered when all calls have ended", len(w.s.loads))
			}
		})
	}
}

// A call goes on for as long as a get waits for it, its own or another.
func TestASharedCallIsUnwantedWhenTheLastHasLeft(t *testing.T) {
	waiter := waiters(t)
	s := sharing{loads: map[uint64]*shared{}}
	a, b, c := waiter(), waiter(), waiter()
	s.join(a, 7, true)
	if s.join(b, 7, false); !s.join(c, 7, false) {
		t.Fatal("not joined")
	}
	if !s.leave(a, context.Canceled) || !s.hasLeft(a) || !a.Waited() {
		t.Error("the first leaves, and the call does not go on for the others")
	}
	if !s.leave(b, context.Canceled) || !a.Waited() {
		t.Error("one of two leaves, and the call does not go on for the other")
	}
	if s.leave(b, context.Canceled) {
		t.Error("it leaves twice")
	}
	if !s.leave(c, context.Canceled) || a.Waited() || !errors.Is(a.Err(), context.Canceled) {
		t.Error("the last leaves, and the call goes on")
	}
	if late := waiter(); s.join(late, 7, false) {
		t.Error("a call that nobody wants was joined")
	}
	alone := waiter()
	s.join(alone, 8, true)
	if s.leave(alone, context.Canceled) || alone.Waited() || s.join(waiter(), 8, false) {
		t.Error("the call of a get that was alone goes on, or was joined")
	}
	plain := waiter()
	if s.hasLeft(plain) || s.leave(plain, context.Canceled) || !errors.Is(plain.Err(), context.Canceled) {
		t.Error("a call that is told of no load was not left")
	}
}

// A call that has ended is neither joined nor handed over.
func TestACallThatHasEndedIsNotShared(t *testing.T) {
	waiter := waiters(t)
	s := sharing{loads: map[uint64]*shared{}}
	ended := waiter()
	ended.Leave(link.ErrSilent)
	if s.join(ended, 7, false); len(s.loads) != 0 {
		t.Error("it was shared")
	}
	a := waiter()
	s.join(a, 7, false)
	late := waiter()
	late.Leave(link.ErrSilent)
	if s.join(late, 7, false) || len(a.shared.others) != 0 {
		t.Error("it was handed over")
	}
}

// However a shared call ends, those that share it end with it: by the answer, when its
// own get leaves, when the member is taken for hung, all at once.
func TestASharedCallEndsOnceForAll(t *testing.T) {
	for range 100 {
		waiter := waiters(t)
		a := waiter()
		s := &a.l.pe.p.sharing
		s.join(a, 7, true)
		var others []*call
		for range 3 {
			others = append(others, waiter())
		}
		var steps sync.WaitGroup
		for _, c := range others {
			steps.Go(func() { s.join(c, 7, false) })
			steps.Go(func() { s.leave(c, context.Canceled) })
		}
		steps.Go(func() { s.leave(a, context.Canceled) })
		steps.Go(func() { a.l.Fail(link.ErrSilent) })
		steps.Wait()
		for _, c := range append(others, a) {
			if c.Waited() {
				t.Fatal("it is still waited for")
			}
		}
		if len(s.loads) != 0 || len(a.shared.others) != 0 {
			t.Fatalf("%d loads are remembered, %d share the call", len(s.loads), len(a.shared.others))
		}
	}
}
