package peers

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"kring/cache"
	"kring/peers/memnet"
)

// waiter is a call of which a sharing is told, without a link.
func waiter() *call { return &call{done: make(chan struct{})} }

// took is what a call was given: "" while it waits.
func (c *call) took() string {
	select {
	case <-c.done:
	default:
		return ""
	}
	if c.err != nil {
		return c.err.Error()
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
		a, b, c string // what the three came to
	}{
		"who waits for one load takes one answer": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.join(w.c, seven, false)
			w.s.end(w.a.shared, answered("n1"), nil)
		}, "", "n1", "n1"},
		"who waits for another load does not": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, eight, false)
			w.s.join(w.c, eight, false)
			w.s.end(w.a.shared, answered("n1"), nil)
		}, "", "", ""},
		"an error is shared likewise": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.end(w.a.shared, Reply{}, errors.New("failed"))
		}, "", "failed", ""},
		"who comes when it is over makes a call of its own": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.end(w.a.shared, answered("n1"), nil)
			w.s.join(w.b, seven, false)
			w.s.join(w.c, seven, false)
			w.s.end(w.b.shared, answered("n2"), nil)
		}, "", "", "n2"},
		"the call that started the load is not given up": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, true)
			w.s.join(w.c, seven, false)
			w.s.end(w.b.shared, answered("n1"), nil)
		}, "", "", "n1"},
		"the end of a call that was replaced leaves its successor joinable": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, true)
			w.s.end(w.a.shared, answered("n2"), nil)
			w.s.join(w.c, seven, false)
			w.s.end(w.b.shared, answered("n1"), nil)
		}, "", "", "n1"},
		"a call that is told another load keeps those that joined it": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.join(w.a, eight, false)
			w.s.join(w.c, eight, false)
			w.s.end(w.a.shared, answered("n1"), nil)
		}, "", "n1", "n1"},
		"the load that it was told before is not joined any more": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.a, eight, false)
			w.s.join(w.c, seven, false)
			w.s.end(w.a.shared, answered("n1"), nil)
		}, "", "", ""},
		"who has left takes nothing": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.join(w.c, seven, false)
			w.s.leave(w.b)
			w.s.end(w.a.shared, answered("n1"), nil)
		}, "", "", "n1"},
		"a call told the same load twice is the one that waits": {func(w *world) {
			w.s.join(w.a, seven, false)
			w.s.join(w.a, seven, false)
			w.s.join(w.b, seven, false)
			w.s.end(w.a.shared, answered("n1"), nil)
		}, "", "n1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{s: sharing{loads: map[uint64]*shared{}}, a: waiter(), b: waiter(), c: waiter()}
			test.steps(w)
			got := []string{w.a.took(), w.b.took(), w.c.took()}
			if want := []string{test.a, test.b, test.c}; !slices.Equal(got, want) {
				t.Errorf("took %q, want %q", got, want)
			}
			for _, c := range []*call{w.a, w.b, w.c} {
				if c.shared != nil && c.shared.call == c {
					w.s.end(c.shared, Reply{}, nil)
				}
			}
			if len(w.s.loads) != 0 {
				t.Errorf("%d loads are remembered when all calls have ended", len(w.s.loads))
			}
		})
	}
}

// A call goes on for as long as anybody waits for it, whoever made it.
func TestASharedCallIsUnwantedWhenTheLastHasLeft(t *testing.T) {
	s := sharing{loads: map[uint64]*shared{}}
	a, b, c := waiter(), waiter(), waiter()
	s.join(a, 7, true)
	if s.join(b, 7, false); !s.join(c, 7, false) {
		t.Fatal("not joined")
	}
	if !s.goesOn(a.shared) {
		t.Error("the first leaves, and the call is not to go on for the others")
	}
	if left, unwanted := s.leave(b); !left || unwanted != nil {
		t.Errorf("one of two leaves: %v, unwanted %v", left, unwanted)
	}
	if left, unwanted := s.leave(b); left || unwanted != nil {
		t.Errorf("it leaves twice: %v, unwanted %v", left, unwanted)
	}
	if left, unwanted := s.leave(c); !left || unwanted != a {
		t.Errorf("the last leaves: %v, unwanted %v", left, unwanted)
	}
	if late := waiter(); s.join(late, 7, false) {
		t.Error("a call that nobody wants was joined")
	}
	alone := waiter()
	s.join(alone, 8, true)
	if s.goesOn(alone.shared) || s.join(waiter(), 8, false) {
		t.Error("the call of a get that was alone goes on, or was joined")
	}
}

// A link knows how many of its calls are waited for, however each of them ends:
// it is asked the more often whether it lives while there are any.
func TestALinkKnowsHowManyCallsAreWaitedFor(t *testing.T) {
	near, _ := net.Pipe()
	p, _ := pair(t, memnet.New())
	l := &link{pe: p.others["n1"], w: newWriter(near, p.stamp), slots: make(chan struct{}, 10), calls: map[uint64]*call{}, freesSlots: true}
	want := func(n int, when string) {
		t.Helper()
		if l.waiting != n {
			t.Errorf("%s: %d are waited for, want %d", when, l.waiting, n)
		}
	}
	begin := func() *call {
		l.slots <- struct{}{}
		c := &call{l: l, req: &Request{Request: cache.Request{Op: cache.OpGet}, Hop: 1}, done: make(chan struct{})}
		if err := l.register(c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	waits := func(c *call, starter bool) {
		t.Helper()
		if err := l.loading(c.id, appendLoading(nil, 7, starter)); err != nil {
			t.Fatal(err)
		}
	}
	first, joined, left, answered := begin(), begin(), begin(), begin()
	want(4, "four calls")
	waits(first, true)
	waits(joined, false)
	want(3, "one has joined another")
	l.finish(joined)
	want(3, "the answer of the one that has joined, which was cancelled")
	l.leave(left, context.Canceled)
	want(2, "one has left")
	l.finish(left)
	want(2, "the answer of the one that has left")
	l.final(answered)
	want(1, "one was answered")
	l.final(first)
	want(0, "the one that was joined was answered")
	select {
	case <-joined.done:
	default:
		t.Error("the one that has joined is not answered")
	}
	begin()
	l.silent()
	want(0, "the member was taken for hung")
	if len(l.slots) != 1 {
		t.Errorf("%d slots are taken, want that of the call without an answer", len(l.slots))
	}
}
