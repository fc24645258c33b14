package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/membership"
	"kring/peers/memnet"
)

func TestALateLoopDoubtsItself(t *testing.T) {
	own := newSelfDoubt(0)
	for _, step := range []struct {
		at   time.Duration
		late bool
	}{{50, false}, {100, false}, {240, false}, {400, true}, {450, false}, {10450, true}, {10500, false}} {
		if late := own.ticked(int64(step.at * time.Millisecond)); late != step.late {
			t.Errorf("at %d ms: late %v", step.at, late)
		}
	}
	if own.doubtless != int64(10450*time.Millisecond) {
		t.Errorf("silence counts from %d", own.doubtless)
	}
}

func TestTheSlowestPingsOfALinkSetItsPatience(t *testing.T) {
	var r recent
	if p := r.percentile99(); p != 0 {
		t.Errorf("without a sample: %v", p)
	}
	for range 300 {
		r.add(time.Millisecond)
	}
	r.add(200 * time.Millisecond)
	r.add(300 * time.Millisecond)
	if p := r.percentile99(); p != 200*time.Millisecond {
		t.Errorf("p99 %v", p)
	}
	for range len(r.samples) {
		r.add(time.Millisecond)
	}
	if p := r.percentile99(); p != time.Millisecond {
		t.Errorf("old samples stay: %v", p)
	}
}

// idle is a Handler with nothing in it, whose calls wait.
type idle struct{}

func (idle) Serve(ctx context.Context, _ *cache.Request) (cache.Answer, error) {
	<-ctx.Done()
	return cache.Answer{}, ctx.Err()
}

func (idle) ServeStored(cache.Key, bool, func(*cache.Entry) bool) (cache.Answer, bool) {
	return cache.Answer{}, false
}
func (idle) Settle(cache.Kind, bool)           {}
func (idle) DropGroup(string)                  {}
func (idle) DropTags(string, []string)         {}
func (idle) Copy(cache.Key) (cache.Copy, bool) { return cache.Copy{}, false }

// pair makes the two members of a cluster, neither of them started.
func pair(t *testing.T, n *memnet.Network) (good, bad *Peers) {
	t.Helper()
	var made []*Peers
	for i := range 2 {
		o := Options{Self: membership.Member{ID: fmt.Sprint("n", i)}, Config: membership.DefaultConfig(), Dial: n.Dialer(fmt.Sprintf("n%d:1", i)), MaxFrameValue: 1 << 20}
		o.Config.Peers = []string{"n0=http://n0:1", "n1=http://n1:1"}
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, p)
	}
	return made[0], made[1]
}

// serve starts a node with a listener; the test's end closes both.
func serve(t *testing.T, n *memnet.Network, host string, h http.Handler) {
	t.Helper()
	l, err := n.Listen(host)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { server.Close(); serving.Wait() })
}

func TestAMemberThatBreaksTheProtocolLosesItsLink(t *testing.T) {
	put := Request{Request: cache.Request{Op: cache.OpPut, Value: make([]byte, 1<<19)}, Hop: 1}
	tooBig := put
	tooBig.Value = make([]byte, 2<<20)
	call := frameOf(frameCall, 1, appendRequest(nil, &Request{Request: cache.Request{Op: cache.OpGet}, Hop: 1}))
	for name, sent := range map[string][]byte{
		"unknown type":          frameOf(77, 1, nil),
		"length beyond the cap": endFrame(appendHeader(nil, frameCall, 1, 1, 0), 0, 1<<30),
		"unknown operation":     frameOf(frameCall, 1, []byte{99, 1, 0, 0, 0, 0}),
		"an answer unasked":     frameOf(frameAnswer, 1, make([]byte, 5)),
		"value above the limit": frameOf(frameCall, 1, appendRequest(nil, &tooBig)),
		"the same id twice":     append(append([]byte(nil), call...), call...),
		"a chunk too many": append(append(frameOf(frameCall, 1, appendRequest(nil, &Request{Request: cache.Request{Op: cache.OpPut, Value: make([]byte, chunkLen+1)}, Hop: 1})),
			frameOf(frameChunk, 1, make([]byte, chunkLen))...), frameOf(frameChunk, 1, []byte{1, 2})...),
		"a chunk of nothing":       frameOf(frameChunk, 1, []byte{1}),
		"a chunk of a small put":   append(callFrame(1, cache.OpPut, "k", "v"), frameOf(frameChunk, 1, []byte{1})...),
		"many gets of none":        frameOf(frameCall, 1, appendRequest(nil, &Request{Request: cache.Request{Op: OpGetMany}, Hop: 1})),
		"many gets of too many":    frameOf(frameCall, 1, appendRequest(nil, &Request{Request: cache.Request{Op: OpGetMany}, Hop: 1, Keys: make([]string, maxMany+1)})),
		"many gets, fewer than so": frameOf(frameCall, 1, []byte{byte(OpGetMany), 1, 0, 0, 0, 0, 3, 1, 'k'}),
		"hop three":                frameOf(frameCall, 1, []byte{byte(cache.OpGet), 3, 0, 0, 0, 0}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := memnet.New()
				good, bad := pair(t, n)
				good.Start(idle{})
				defer good.Close()
				serve(t, n, "n0:1", good)
				conn, r := dialled(t, n, bad)
				defer conn.Close()
				for _, frame := range stamped(sent, bad.incarnation) {
					if _, err := conn.Write(frame); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := io.Copy(io.Discard, r); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if s := good.Stats(); s.BrokenFrames != 1 || s.Incoming != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
	t.Run("another incarnation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New()
			good, bad := pair(t, n)
			good.Start(idle{})
			defer good.Close()
			serve(t, n, "n0:1", good)
			conn, r := dialled(t, n, bad)
			defer conn.Close()
			if _, err := conn.Write(endFrame(appendHeader(nil, frameCancel, 1, 1, bad.incarnation+1), 0, 0)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Error(err)
			}
		})
	})
}

func frameOf(typ frameType, id uint64, body []byte) []byte {
	return endFrame(append(appendHeader(nil, typ, id, 1, 0), body...), 0, 0)
}

// stamped writes an incarnation into frames that lie one after the other. A
// length beyond what is there makes the last one.
func stamped(frames []byte, incarnation uint64) [][]byte {
	var list [][]byte
	for len(frames) >= headerLen {
		length := int(uint32(frames[0])<<24|uint32(frames[1])<<16|uint32(frames[2])<<8|uint32(frames[3])) + 4
		one := append([]byte(nil), frames[:min(length, len(frames))]...)
		copy(one[24:], appendHeader(nil, 0, 0, 0, incarnation)[24:headerLen])
		list = append(list, one)
		frames = frames[len(one):]
	}
	return list
}

// dialled makes bad's link to n0, by hand.
func dialled(t *testing.T, n *memnet.Network, bad *Peers) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := n.Dialer("n1:1")(t.Context(), "n0:1")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", LinkPath, UpgradeName)
	r := bufio.NewReader(conn)
	if _, err := http.ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.greet(duplex{conn, r}, "n0"); err != nil {
		t.Fatal(err)
	}
	return conn, r
}

// byHand has a member that was not started take links and answer each frame
// with what a function returns.
func byHand(t *testing.T, n *memnet.Network, host string, p *Peers, answer func(h header, body []byte) []byte) {
	t.Helper()
	serve(t, n, host, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		if _, err := p.welcome(duplex{conn, rw.Reader}, func(*claim) error { return nil }); err != nil {
			return // the node is stopping
		}
		r := newFrameReader(rw.Reader)
		for {
			h, err := r.header()
			if err != nil {
				return
			}
			body := make([]byte, h.body)
			if _, err := io.ReadFull(r.r, body); err != nil {
				return
			}
			for _, frame := range stamped(answer(h, body), p.incarnation) {
				conn.Write(frame)
			}
		}
	}))
}

func TestAnOwnerThatAnswersNonsenseIsNotWaitedFor(t *testing.T) {
	entry := Reply{Answer: cache.Answer{Entry: &cache.Entry{Value: make([]byte, chunkLen+10)}}}
	big := frameOf(frameAnswer, 1, appendReply(nil, &entry, time.Now()))
	for name, sent := range map[string][]byte{
		"an answer to nothing":  frameOf(frameAnswer, 99, make([]byte, 5)),
		"a chunk of nothing":    frameOf(frameChunk, 1, []byte{1}),
		"a body that is short":  frameOf(frameAnswer, 1, []byte{flagEntry, 0}),
		"a call":                frameOf(frameCall, 1, []byte{1}),
		"answers to many gets":  frameOf(frameAnswer, 1, appendReply(nil, &Reply{Many: make([]cache.Answer, 1)}, time.Now())),
		"an answer twice":       append(append([]byte(nil), big...), big...),
		"a pong that is broken": frameOf(framePong, 0, make([]byte, 15)),
		"loading of nothing":    frameOf(frameLoading, 99, nil),
		"a load without a flag": frameOf(frameLoading, 1, make([]byte, 8)),
		"a load of odd flags":   frameOf(frameLoading, 1, append(make([]byte, 8), 2)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := memnet.New()
				good, bad := pair(t, n)
				byHand(t, n, "n1:1", bad, func(h header, _ []byte) []byte {
					if h.typ == frameCall {
						return sent
					}
					return nil
				})
				good.Start(idle{})
				defer good.Close()
				synctest.Wait()
				key := "k"
				for i := 0; good.View().Ring.Get(key) != "n1"; i++ {
					key = fmt.Sprint("k", i)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := good.Forward(ctx, &cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "g", Key: key}})
				if !errors.Is(err, cache.ErrActHere) {
					t.Errorf("get: %v", err)
				}
				if good.Stats().BrokenFrames == 0 {
					t.Error("not counted")
				}
			})
		})
	}
}

func TestCallsWaitForASlotAndAreThenOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		one, two := pair(t, n)
		two.speaks = 1 // so that the calls keep their slots, though they wait
		serve(t, n, "n0:1", one)
		serve(t, n, "n1:1", two)
		for _, p := range []*Peers{one, two} {
			p.Start(idle{})
			defer p.Close()
		}
		<-time.After(time.Second)
		key := "k"
		for i := 0; one.View().Ring.Get(key) != "n1"; i++ {
			key = fmt.Sprint("k", i)
		}
		req := &cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "g", Key: key}}
		var callers sync.WaitGroup
		for range maxCalls {
			callers.Go(func() {
				if _, err := one.Forward(t.Context(), req); !errors.Is(err, cache.ErrActHere) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := one.Forward(short, req); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("the %dth call: %v", maxCalls+1, err)
		}
		if s := one.Stats().Peers[0]; s.InFlight != maxCalls || s.Open {
			t.Errorf("%+v", s)
		}
		waits := make(chan error)
		go func() { _, err := one.Forward(t.Context(), req); waits <- err }()
		synctest.Wait()
		n.Kill("n1:1")
		callers.Wait()
		if err := <-waits; !errors.Is(err, cache.ErrActHere) {
			t.Errorf("who waited when the owner died: %v", err)
		}
	})
}

// A link has room for many calls that wait, and no more: a get beyond it is
// refused, a write keeps its slot, and whoever is answered makes room.
func TestCallsThatWaitAreBounded(t *testing.T) {
	near, _ := net.Pipe()
	p, _ := pair(t, memnet.New())
	in := newIncoming(p, &claim{hello: hello{id: "n1", maxProtocol: protocol}}, near, bufio.NewReader(near))
	in.ctx = t.Context()
	for id := range uint64(maxWaits - 1) {
		in.waits[id] = &served{in: in, id: id}
	}
	calls := make([]*served, 3)
	for i := range calls {
		calls[i] = &served{in: in, id: uint64(maxWaits + i), req: Request{Request: cache.Request{Op: cache.OpGet}}}
		if err := in.begin(calls[i]); err != nil {
			t.Fatal(err)
		}
		defer calls[i].cancel()
	}
	if err := calls[0].Loading(1, false); err != nil {
		t.Errorf("the last for which there is room: %v", err)
	}
	if err := calls[1].Loading(1, false); !errors.Is(err, cache.ErrOverloaded) {
		t.Errorf("one more: %v", err)
	}
	in.watch(p.clock()+int64(time.Minute), p.clock()+int64(time.Minute))
	if len(in.waits) != maxWaits || len(in.calls) != 2 {
		t.Errorf("%d wait, %d others", len(in.waits), len(in.calls))
	}
	calls[0].send()
	if err := calls[1].Loading(1, false); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
	calls[2].send()
	if err := calls[2].Loading(1, false); err != nil || len(in.waits) != maxWaits || len(in.calls) != 0 {
		t.Errorf("told when it is answered: %v; %d wait, %d others", err, len(in.waits), len(in.calls))
	}
}

// A call gives its slot back once: when it is told that it waits, or at its end.
func TestACallGivesItsSlotBackOnce(t *testing.T) {
	near, _ := net.Pipe()
	p, _ := pair(t, memnet.New())
	for _, told := range []int{0, 1, 2} {
		l := &link{pe: p.others["n1"], w: newWriter(near, p.stamp), slots: make(chan struct{}, 2), calls: map[uint64]*call{}, freesSlots: true}
		l.slots <- struct{}{} // another call's
		c := &call{l: l, req: &Request{Request: cache.Request{Op: cache.OpGet}}, done: make(chan struct{})}
		l.slots <- struct{}{}
		if err := l.register(c); err != nil {
			t.Fatal(err)
		}
		for range told {
			if err := l.loading(c.id, nil); err != nil {
				t.Error(err)
			}
		}
		if n, want := len(l.slots), 2-min(told, 1); n != want {
			t.Errorf("told %d times: %d slots are taken, want %d", told, n, want)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); l.finish(c); l.finish(c) }()
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

// A put for which there is no room is forgotten once all of its value has come:
// one link may be refused any number of them.
func TestRefusedPutsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		good, bad := pair(t, n)
		good.Start(idle{})
		defer good.Close()
		serve(t, n, "n0:1", good)
		conn, r := dialled(t, n, bad)
		defer conn.Close()
		id := uint64(0)
		put := func(size int) []byte {
			id++
			return frameOf(frameCall, id, appendRequest(nil, &Request{Request: cache.Request{Op: cache.OpPut, Value: make([]byte, size)}, Hop: 1}))
		}
		send := func(frames []byte) {
			t.Helper()
			for _, frame := range stamped(frames, bad.incarnation) {
				if _, err := conn.Write(frame); err != nil {
					t.Fatalf("put %d: the link is over: %v", id, err)
				}
			}
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
			send(put(1 << 20))
		}
		for range maxCalls + 2 {
			send(put(chunkLen + 1))
			if h, open := <-answers; !open || h.id != id {
				t.Fatalf("put %d: answered %+v, the link is up: %v", id, h, open)
			}
			send(frameOf(frameChunk, id, make([]byte, chunkLen)))
			send(frameOf(frameChunk, id, make([]byte, 1)))
		}
		conn.Close()
		for range answers {
			t.Error("an answer too many")
		}
		if s := good.Stats(); s.BrokenFrames != 0 {
			t.Errorf("%d broken frames", s.BrokenFrames)
		}
	})
}
