package link

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kring/peers/memnet"
)

func TestANodeThatBreaksTheProtocolLosesItsLink(t *testing.T) {
	for name, sent := range map[string][]byte{
		"unknown type":          theirs(77, 1),
		"length beyond the cap": endFrame(appendHeader(nil, frameCall, 1, 1, 8), 0, 1<<30),
		"a call of nonsense":    theirs(frameCall, 1, '?'),
		"an answer unasked":     theirs(frameAnswer, 1, make([]byte, 5)...),
		"the same id twice":     slices.Concat(theirs(frameCall, 1, askNever), theirs(frameCall, 1, askNever)),
		"a chunk too many":      slices.Concat(theirs(frameCall, 1, bring(ChunkLen+1)...), theirs(frameChunk, 1, make([]byte, ChunkLen)...), theirs(frameChunk, 1, 1, 2)),
		"a chunk of nothing":    theirs(frameChunk, 1, 1),
		"a chunk of a call":     slices.Concat(theirs(frameCall, 1, askNever), theirs(frameChunk, 1, 1)),
		"another incarnation":   frameFrom(9, frameCancel, 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, conn, r, ended := answering(t, memnet.New(), &office{})
				if _, err := conn.Write(sent); err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, r); err != nil {
					t.Error(err)
				}
				if err := <-ended; !errors.Is(err, ErrBadFrame) {
					t.Error(err)
				}
			})
		})
	}
}

// A link has room for many calls that wait, and no more: a call beyond it is
// refused or keeps its slot, and each answer makes room.
func TestCallsThatWaitAreBounded(t *testing.T) {
	near, _ := net.Pipe()
	var o office
	in := NewIncoming(thisNode(), &Claim{hello: hello{MaxProtocol: Protocol}}, near, bufio.NewReader(near), &o)
	in.ctx = t.Context()
	for id := range uint64(maxWaits - 1) {
		in.waits[id] = &Inbound{in: in, id: id}
	}
	calls := make([]*reply, 3)
	for i := range calls {
		calls[i] = &reply{o: &o, body: []byte{askSoon}}
		calls[i].in, calls[i].id, calls[i].answerer = in, uint64(maxWaits+i), calls[i]
		if err := in.begin(&calls[i].Inbound); err != nil {
			t.Fatal(err)
		}
		defer calls[i].cancel()
	}
	if err := calls[0].Progress(); err != nil {
		t.Errorf("the last for which there is room: %v", err)
	}
	if err := calls[1].Progress(); !errors.Is(err, ErrCrowded) {
		t.Errorf("one more: %v", err)
	}
	in.Watch(Round{Now: in.node.Clock() + int64(time.Minute), Doubtless: in.node.Clock() + int64(time.Minute)})
	if len(in.waits) != maxWaits || len(in.calls) != 2 {
		t.Errorf("%d wait, %d others", len(in.waits), len(in.calls))
	}
	calls[0].send()
	if err := calls[1].Progress(); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
	calls[2].send()
	if err := calls[2].Progress(); err != nil || len(in.waits) != maxWaits || len(in.calls) != 0 {
		t.Errorf("told when it is answered: %v; %d wait, %d others", err, len(in.waits), len(in.calls))
	}
}

// A call whose id another call of the link still has, and a call too many, break the
// link.
func TestCallsThatCannotBegin(t *testing.T) {
	for name, before := range map[string]func(in *Incoming){
		"the id of a call that waits":        func(in *Incoming) { in.waits[1] = &Inbound{in: in, id: 1} },
		"the id of a call that was refused":  func(in *Incoming) { in.refused[1] = 1 },
		"the id of a call without an answer": func(in *Incoming) { in.calls[1] = &Inbound{in: in, id: 1} },
		"as many calls as a link may have": func(in *Incoming) {
			for id := range uint64(maxCalls) {
				in.calls[2+id] = &Inbound{in: in, id: 2 + id}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			near, _ := net.Pipe()
			in := NewIncoming(thisNode(), &Claim{hello: hello{MaxProtocol: Protocol}}, near, bufio.NewReader(near), &office{})
			in.ctx = t.Context()
			before(in)
			c := &Inbound{in: in, id: 1}
			if err := in.begin(c); !errors.Is(err, ErrBadFrame) || c.ctx.Err() == nil {
				t.Errorf("%v, its context: %v", err, c.ctx.Err())
			}
		})
	}
}

// A call for whose value there is no room is forgotten once all of the value has
// come: one link may be refused any number of them.
func TestRefusedValuesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o office
		_, conn, r, ended := answering(t, memnet.New(), &o)
		id := uint64(0)
		send := func(frames ...[]byte) {
			t.Helper()
			if _, err := conn.Write(slices.Concat(frames...)); err != nil {
				t.Fatalf("call %d: the link is over: %v", id, err)
			}
		}
		call := func(size int) []byte {
			id++
			return theirs(frameCall, id, bring(size)...)
		}
		answers := make(chan header)
		go func() {
			defer close(answers)
			for from := newFrameReader(r); ; {
				h, err := from.header()
				if err == nil {
					_, err = from.r.Discard(h.body)
				}
				if err != nil {
					return
				}
				if h.typ == frameAnswer {
					answers <- h
				}
			}
		}()
		for range maxPartial >> 20 { // their values never come
			send(call(1 << 20))
		}
		for range maxCalls + 2 {
			send(call(ChunkLen + 1))
			if h, open := <-answers; !open || h.id != id {
				t.Fatalf("call %d: answered %+v, the link is up: %v", id, h, open)
			}
			send(theirs(frameChunk, id, make([]byte, ChunkLen)...), theirs(frameChunk, id, 0))
		}
		conn.Close()
		for range answers {
			t.Error("an answer too many")
		}
		if err := <-ended; errors.Is(err, ErrBadFrame) {
			t.Error(err)
		}
		if len(o.refused) != maxCalls+2 || !errors.Is(o.refused[0], ErrCrowded) {
			t.Errorf("%d were refused", len(o.refused))
		}
	})
}

// Not even refused values may be begun without end.
func TestRefusedValuesThatDoNotComeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, conn, r, ended := answering(t, memnet.New(), &office{})
		go io.Copy(io.Discard, r)
		for id := range uint64(maxPartial>>20 + maxCalls + 2) {
			if _, err := conn.Write(theirs(frameCall, id+1, bring(1<<20)...)); err != nil {
				break
			}
		}
		if err := <-ended; !errors.Is(err, ErrBadFrame) {
			t.Error(err)
		}
	})
}

// answers reads frames until each of some calls has its final answer.
func answers(t *testing.T, r *bufio.Reader, ids ...uint64) (said map[uint64]string) {
	t.Helper()
	said = map[uint64]string{}
	from := newFrameReader(r)
	for len(said) < len(ids) {
		h, err := from.header()
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, h.body)
		if _, err := io.ReadFull(from.r, body); err != nil {
			t.Fatal(err)
		}
		if h.typ == frameAnswer && slices.Contains(ids, h.id) {
			said[h.id] = string(body)
		}
	}
	return said
}

func TestAnAnswerThatDoesNotFitIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o office
		_, conn, r, _ := answering(t, memnet.New(), &o)
		if _, err := conn.Write(theirs(frameCall, 1, askHuge)); err != nil {
			t.Fatal(err)
		}
		if got := answers(t, r, 1); got[1] != "\x00h" {
			t.Errorf("%q", got[1])
		}
		synctest.Wait()
		if len(o.refused) != 1 || !errors.Is(o.refused[0], ErrFrameSize) || o.written != 1 || o.lost != 0 {
			t.Errorf("refused %v, written %d, lost %d", o.refused, o.written, o.lost)
		}
	})
}

// An answer that the reader has made, and that cannot be queued at once, goes out
// when there is room, and nobody makes it a second time.
func TestAnAnswerThatIsThereWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		var o office
		in, conn, r, _ := answering(t, n, &o)
		n.Hold("n0:1", "n1:1")
		const few = 60
		for id := range uint64(few) { // until all room is taken
			if _, err := conn.Write(theirs(frameCall, id+1, append([]byte{askValue}, 0x80, 0x80, 0x40)...)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		in.w.mu.Lock()
		in.w.batch = append(in.w.batch, make([]byte, maxSmall)...)
		in.w.mu.Unlock()
		if _, err := conn.Write(theirs(frameCall, 99, askAtOnce)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		o.mu.Lock()
		running, made := o.running, o.made
		o.mu.Unlock()
		if running != 0 || made != few+1 {
			t.Errorf("%d are at work, %d answers were made", running, made)
		}
		in.w.mu.Lock()
		in.w.batch = in.w.batch[:len(in.w.batch)-maxSmall]
		in.w.mu.Unlock()
		n.Release("n0:1", "n1:1")
		if got := answers(t, r, 99); got[99] != "\x00s" {
			t.Errorf("%q", got[99])
		}
	})
}

// When the link ends, calls end with their context, and answers that do not go out
// are lost.
func TestTheEndOfALinkEndsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o office
		in, conn, _, ended := answering(t, memnet.New(), &o)
		if _, err := conn.Write(slices.Concat(theirs(frameCall, 1, askNever), theirs(frameCall, 2, askNever))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		in.Close()
		<-ended
		if o.running != 0 || o.made != 2 || o.lost != 2 {
			t.Errorf("%d at work, %d made, %d lost", o.running, o.made, o.lost)
		}
	})
}

func TestACallHasItsCallersDeadline(t *testing.T) {
	in := &Incoming{node: thisNode(), ctx: t.Context(), calls: map[uint64]*Inbound{}}
	c := &Inbound{in: in, id: 1, Timeout: time.Minute}
	if err := in.begin(c); err != nil {
		t.Fatal(err)
	}
	defer c.cancel()
	if at, ok := c.ctx.Deadline(); !ok || time.Until(at) > time.Minute {
		t.Errorf("%v, %v", at, ok)
	}
	free := &Inbound{in: in, id: 2}
	if err := in.begin(free); err != nil {
		t.Fatal(err)
	}
	defer free.cancel()
	if at, ok := free.ctx.Deadline(); ok {
		t.Errorf("without a timeout: %v", at)
	}
}

// A caller that speaks the first protocol understands no body of a loading frame.
func TestACallerOfTheFirstProtocolIsToldThatItsCallIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, old := thisNode(), thatNode()
		old.Speaks = 1
		near, far := shaken(t, memnet.New(), old, node)
		var o office
		in := NewIncoming(node, far.claim, far.conn, far.r, &o)
		ended := make(chan error)
		go func() { ended <- in.Run(context.Background()) }()
		if _, err := near.conn.Write(theirs(frameCall, 1, askNever)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := o.progress[0].Progress(1, 2, 3); err != nil {
			t.Error(err)
		}
		<-time.After(loadingAfter)
		in.Watch(Round{Now: node.Clock()})
		h, err := newFrameReader(near.r).header()
		if err != nil || h.typ != frameLoading || h.body != 0 {
			t.Errorf("%+v, %v", h, err)
		}
		near.conn.Close()
		<-ended
	})
}
