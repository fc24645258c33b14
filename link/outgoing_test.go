package link

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/peers/memnet"
)

// standing is a Peer whose circuit a test opens.
type standing struct {
	friend
	open    atomic.Bool
	changed chan struct{}
}

func (s *standing) Called() (bool, <-chan struct{}) { return !s.open.Load(), s.changed }

// lone is a link that nobody reads or writes, and whose other end knows how many
// calls it takes.
func lone(t *testing.T, maxCalls uint64, peer Peer) *Outgoing {
	t.Helper()
	near, _ := net.Pipe()
	c := &Claim{hello: hello{MaxProtocol: Protocol}, about: about{MaxCalls: maxCalls, Incarnation: 7}}
	return NewOutgoing(thatNode(), c, near, bufio.NewReader(near), peer)
}

func begun(t *testing.T, l *Outgoing) *letter {
	t.Helper()
	c := &letter{body: []byte{askSoon}}
	if err := l.Begin(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// tell has a link's reader take a loading frame.
func tell(t *testing.T, l *Outgoing, id uint64, says ...byte) error {
	t.Helper()
	r, w := net.Pipe()
	defer r.Close()
	go w.Write(says)
	l.reader = newFrameReader(r)
	return l.progress(header{typ: frameLoading, id: id, body: len(says)})
}

func TestANodeThatAnswersNonsenseIsNotWaitedFor(t *testing.T) {
	big := ours(frameAnswer, 1, binary.AppendUvarint(nil, ChunkLen+10)...)
	for name, sent := range map[string][]byte{
		"an answer to nothing": ours(frameAnswer, 99, 0),
		"a chunk of nothing":   ours(frameChunk, 1, 1),
		"a head of nonsense":   ours(frameAnswer, 1, 0xff),
		"a call":               ours(frameCall, 1, askSoon),
		"an answer twice":      slices.Concat(big, big),
		"a chunk too many":     slices.Concat(big, ours(frameChunk, 1, make([]byte, ChunkLen)...), ours(frameChunk, 1, make([]byte, 11)...)),
		"loading of nothing":   ours(frameLoading, 99),
		"another incarnation":  frameFrom(9, frameAnswer, 1, 0),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, ended := calling(t, memnet.New(), &friend{}, func(h header, _ []byte) []byte {
					if h.typ == frameCall {
						return sent
					}
					return nil
				})
				c := begun(t, l)
				if err := c.wait(t.Context()); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				if err := <-ended; !errors.Is(err, ErrBadFrame) || !errors.Is(c.failed, ErrClosed) {
					t.Errorf("%v, failed with %v", err, c.failed)
				}
				if err := l.Begin(t.Context(), &letter{}); !errors.Is(err, ErrClosed) || !l.Ended() || l.InFlight() != 0 {
					t.Errorf("a call on the link that has ended: %v; ended %v, %d in flight", err, l.Ended(), l.InFlight())
				}
			})
		})
	}
}

func TestAnswersCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		value := make([]byte, 3*ChunkLen+5)
		for i := range value {
			value[i] = byte(i % 251)
		}
		l, _ := calling(t, memnet.New(), &friend{}, func(h header, body []byte) []byte {
			switch {
			case h.typ != frameCall:
				return nil
			case body[0] == askValue:
				frames := ours(frameAnswer, h.id, binary.AppendUvarint(nil, uint64(len(value)))...)
				for chunk := range slices.Chunk(value, ChunkLen) {
					frames = append(frames, ours(frameChunk, h.id, chunk...)...)
				}
				return frames
			}
			return ours(frameAnswer, h.id, append([]byte{0}, body...)...)
		})
		small, big := &letter{body: []byte("small")}, &letter{body: []byte{askValue}}
		for _, c := range []*letter{small, big} {
			if err := l.Begin(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []*letter{small, big} {
			if err := c.wait(t.Context()); err != nil || c.late || c.failed != nil {
				t.Errorf("%v, late %v, failed %v", err, c.late, c.failed)
			}
		}
		if string(small.head) != "small" || small.bulk != nil || !slices.Equal(big.bulk, value) {
			t.Errorf("%q, %d bytes, %d bytes", small.head, len(small.bulk), len(big.bulk))
		}
	})
}

// The value of an answer that nobody waits for is thrown away as it arrives, and the
// caller is told so that it can give back the room.
func TestAValueThatNobodyWaitsForIsThrownAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		l, _ := calling(t, memnet.New(), &friend{}, func(h header, _ []byte) []byte {
			switch h.typ {
			case frameCall:
				close(first)
				return append(ours(frameAnswer, h.id, binary.AppendUvarint(nil, ChunkLen+1)...), ours(frameChunk, h.id, make([]byte, ChunkLen)...)...)
			case frameCancel:
				return ours(frameChunk, h.id, 1)
			}
			return nil
		})
		c := begun(t, l)
		<-first
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if c.discarded == 0 || c.bulk != nil || !c.late || c.failed != nil || l.InFlight() != 0 {
			t.Errorf("discarded %d times, %d bytes, late %v, failed %v, %d in flight", c.discarded, len(c.bulk), c.late, c.failed, l.InFlight())
		}
	})
}

func TestCallsWaitForASlotAndAreThenCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &standing{changed: make(chan struct{})}
		l := lone(t, 2, p)
		begun(t, l)
		second := begun(t, l)
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := l.Begin(short, &letter{}); !errors.Is(err, ErrCrowded) {
			t.Errorf("the third call: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := l.Begin(ctx, &letter{}); !errors.Is(err, context.Canceled) {
			t.Errorf("one whose caller left: %v", err)
		}
		waits := make(chan error)
		next := func() {
			go func() { waits <- l.Begin(t.Context(), &letter{}) }()
			synctest.Wait()
		}
		next()
		l.final(&second.Call)
		if err := <-waits; err != nil {
			t.Errorf("one that waited for a slot: %v", err)
		}
		next()
		p.open.Store(true)
		close(p.changed)
		if err := <-waits; !errors.Is(err, ErrSilent) {
			t.Errorf("one that waited when the circuit opened: %v", err)
		}
	})
}

// A call that cannot be sent leaves neither a slot nor a trace.
func TestACallThatIsNotSentIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lone(t, 10, &friend{})
		if err := l.Begin(t.Context(), &letter{body: make([]byte, 2*MaxMeta+ChunkLen)}); !errors.Is(err, ErrFrameSize) {
			t.Errorf("too long: %v", err)
		}
		l.w.unsent = maxUnsent
		l.w.batch = make([]byte, maxSmall)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Begin(ctx, &letter{}); !errors.Is(err, ErrCrowded) {
			t.Errorf("no room until its deadline: %v", err)
		}
		failed := make(chan error)
		begin := func() {
			go func() { failed <- l.Begin(t.Context(), &letter{}) }()
			synctest.Wait()
		}
		begin()
		l.Fail(ErrSilent)
		if err := <-failed; !errors.Is(err, ErrSilent) {
			t.Errorf("no room when all failed: %v", err)
		}
		begin()
		l.w.close(errors.New("broken pipe"))
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("no room when the connection broke: %v", err)
		}
		if len(l.slots) != 0 || l.InFlight() != 0 || l.waiting != 0 {
			t.Errorf("%d slots, %d in flight, %d waited for", len(l.slots), l.InFlight(), l.waiting)
		}
	})
}

// A call gives its slot back once: when it is told that it waits, or at its end.
func TestACallGivesItsSlotBackOnce(t *testing.T) {
	for _, told := range []int{0, 1, 2} {
		l := lone(t, 2, &friend{})
		begun(t, l) // another call
		c := begun(t, l)
		for range told {
			if err := tell(t, l, c.id); err != nil {
				t.Error(err)
			}
		}
		if n, want := len(l.slots), 2-min(told, 1); n != want {
			t.Errorf("told %d times: %d slots are taken, want %d", told, n, want)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); l.finish(&c.Call); l.finish(&c.Call) }()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatalf("told %d times: its end waits for a slot that nobody has", told)
		}
		if n := len(l.slots); n != 1 {
			t.Errorf("told %d times: %d slots are taken after its end, want the other's", told, n)
		}
	}
}

// A node that speaks the first protocol counts calls that wait like others.
func TestACallKeepsItsSlotAtANodeOfTheFirstProtocol(t *testing.T) {
	near, _ := net.Pipe()
	l := NewOutgoing(thatNode(), &Claim{hello: hello{MaxProtocol: 1}, about: about{MaxCalls: 2}}, near, bufio.NewReader(near), &friend{})
	c := begun(t, l)
	if err := tell(t, l, c.id); err != nil || len(l.slots) != 1 {
		t.Errorf("%v, %d slots are taken", err, len(l.slots))
	}
}

// A link knows how many of its calls are waited for, however each of them ends:
// it is asked the more often whether it lives while there are any.
func TestALinkKnowsHowManyCallsAreWaitedFor(t *testing.T) {
	l := lone(t, 10, &friend{})
	want := func(n int, when string) {
		t.Helper()
		if l.waiting != n {
			t.Errorf("%s: %d are waited for, want %d", when, l.waiting, n)
		}
	}
	given, left, answered, told := begun(t, l), begun(t, l), begun(t, l), begun(t, l)
	want(4, "four calls")
	if !given.HandOver() || given.HandOver() || given.Leave(context.Canceled) || given.Waited() {
		t.Error("not handed over once")
	}
	want(3, "one was handed over")
	if l.finish(&given.Call) {
		t.Error("the answer to the one that was handed over is waited for")
	}
	want(3, "its answer")
	given.Release(ErrSilent)
	if <-given.Done(); !errors.Is(given.Err(), ErrSilent) {
		t.Error(given.Err())
	}
	if !left.Leave(context.Canceled) || left.Leave(ErrSilent) || left.HandOver() || !errors.Is(left.Err(), context.Canceled) {
		t.Error("not left once")
	}
	want(2, "one was left")
	l.final(&left.Call)
	want(2, "the answer of the one that was left")
	if !left.late {
		t.Error("its answer was waited for")
	}
	l.final(&answered.Call)
	want(1, "one was answered")
	if err := tell(t, l, told.id, 1, 2); err != nil || len(told.told) != 1 || string(told.told[0]) != "\x01\x02" {
		t.Errorf("%v, told %q", err, told.told)
	}
	want(1, "one is told that it waits")
	if err := tell(t, l, answered.id, 1); err != nil || answered.told != nil {
		t.Errorf("told after its answer: %v, %q", err, answered.told)
	}
	last := begun(t, l)
	l.Fail(ErrSilent)
	want(0, "all have failed")
	if !errors.Is(last.failed, ErrSilent) || !errors.Is(last.Err(), ErrSilent) || left.failed != nil {
		t.Errorf("failed with %v, %v, %v", last.failed, last.Err(), left.failed)
	}
	if len(l.slots) != 1 {
		t.Errorf("%d slots are taken, want that of the call without an answer", len(l.slots))
	}
}

// What a call's caller decides, what the link decides and the answer may all happen
// at once: the call ends once.
func TestACallEndsOnce(t *testing.T) {
	for range 200 {
		l := lone(t, 10, &friend{})
		c := begun(t, l)
		var ends sync.WaitGroup
		var leaves atomic.Int64
		ends.Go(func() { l.final(&c.Call) })
		ends.Go(func() { l.Fail(ErrSilent) })
		ends.Go(func() {
			if c.Leave(context.Canceled) {
				leaves.Add(1)
			}
		})
		ends.Go(func() {
			if c.HandOver() {
				c.Release(ErrClosed)
				leaves.Add(1)
			}
		})
		ends.Wait()
		<-c.Done()
		if l.waiting != 0 || l.InFlight() != 0 || len(l.slots) != 0 || leaves.Load() > 1 {
			t.Fatalf("%d waited for, %d in flight, %d slots, left %d times", l.waiting, l.InFlight(), len(l.slots), leaves.Load())
		}
	}
}
