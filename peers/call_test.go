package peers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers"
)

func TestBigValuesCrossTheLinkWholeAndDoNotBlockSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		big := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB
		c.nodes[1].on(func(_ context.Context, req *cache.Request) (cache.Answer, error) {
			e := &cache.Entry{Value: big}
			if req.Op == cache.OpPut {
				if !bytes.Equal(req.Value, big) {
					t.Error("a put's value arrived changed")
				}
				e.Value = nil
			}
			return cache.Answer{Kind: cache.KindHit, Entry: e}, nil
		})
		a, err := c.nodes[0].get(t.Context(), 1, "k")
		if err != nil || !bytes.Equal(a.Entry.Value, big) || cap(a.Entry.Value) != len(big) {
			t.Errorf("got %d bytes in %d, %v", len(a.Entry.Value), cap(a.Entry.Value), err)
		}
		if err := c.nodes[0].put(t.Context(), 1, big); err != nil {
			t.Error(err)
		}
		if err := c.nodes[0].put(t.Context(), 1, make([]byte, 9<<20)); !errors.Is(err, cache.ErrValueTooLarge) {
			t.Errorf("9 MiB: %v", err)
		}
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindLoad, Entry: &cache.Entry{Value: make([]byte, 9<<20)}}, nil
		})
		if _, err := c.nodes[0].get(t.Context(), 1, "k"); !errors.Is(err, cache.ErrOriginBadAnswer) {
			t.Errorf("answer of 9 MiB: %v", err)
		}
		c.checkBooks()
	})
}

func TestErrorsKeepTheirCodesAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		for _, want := range []*cache.Error{
			cache.ErrNotCached, cache.ErrOverloaded.With("too many loads"), cache.ErrOriginFailed.Because(errors.New("secret")),
		} {
			c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
				return cache.Answer{Kind: cache.KindRefused}, want
			})
			_, err := c.nodes[0].get(t.Context(), 1, "k")
			var got *cache.Error
			if !errors.Is(err, want) || !errors.As(err, &got) || got.Detail != want.Detail || got.Err != nil {
				t.Errorf("%v became %v", want, err)
			}
		}
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) { panic("oh") })
		if _, err := c.nodes[0].get(t.Context(), 1, "k"); !errors.Is(err, cache.ErrInternal) {
			t.Errorf("a panic became %v", err)
		}
		c.checkBooks()
	})
}

func TestTheDeadlineOfACallCrossesTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.nodes[1].on(func(ctx context.Context, _ *cache.Request) (cache.Answer, error) {
			if d, ok := ctx.Deadline(); !ok || time.Until(d) > 8*time.Second {
				t.Errorf("deadline %v, %v", d, ok)
			}
			select {
			case <-time.After(5 * time.Second):
				return cache.Answer{Kind: cache.KindLoad, Entry: &cache.Entry{}}, nil
			case <-ctx.Done():
				return cache.Answer{}, ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		if _, err := c.nodes[0].get(ctx, 1, "k"); err != nil {
			t.Errorf("an answer after 5 s: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.nodes[0].get(ctx, 1, "k"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := c.nodes[0].get(ctx, 1, "k"); !errors.Is(err, context.DeadlineExceeded) || c.nodes[1].times("k") != 2 {
			t.Errorf("a call without time: %v, %d calls", err, c.nodes[1].times("k"))
		}
		c.checkBooks()
	})
}

func TestACallersCancelReachesTheOtherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		cancelled := make(chan error, 1)
		c.nodes[1].on(func(ctx context.Context, _ *cache.Request) (cache.Answer, error) {
			<-ctx.Done()
			cancelled <- ctx.Err()
			return cache.Answer{}, ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := c.nodes[0].get(ctx, 1, "k"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		select {
		case err := <-cancelled:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the other node works on for a caller that has left")
		}
		c.checkBooks()
	})
}

func TestTheNextLinkTellsWhichAnswersWereLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.net.Hold("n1:1", "n0:1") // answers are written, and lost when the link breaks
		done := make(chan error)
		go func() { _, err := c.nodes[0].get(t.Context(), 1, "k"); done <- err }()
		synctest.Wait()
		c.net.Break("n0:1", "n1:1")
		c.net.Release("n1:1", "n0:1")
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.checkBooks()
	})
}

func TestTheRoomOfLargePutsIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		put := func() error { return c.nodes[0].put(t.Context(), 1, make([]byte, 1<<20)) }
		for i := range 80 { // 64 MiB may arrive at once
			if err := put(); err != nil {
				t.Fatalf("put %d, one after the other: %v", i, err)
			}
		}
		var putting sync.WaitGroup
		var refused atomic.Int32
		for range 100 {
			putting.Go(func() {
				if err := put(); errors.Is(err, cache.ErrOverloaded) {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		putting.Wait()
		t.Logf("%d of a hundred at once were refused", refused.Load())
		for i := range 80 {
			if err := put(); err != nil {
				t.Fatalf("put %d after many at once: %v", i, err)
			}
		}
		c.checkBooks()
	})
}

// Values about the size of a chunk cross the link both ways, alone and in a batch.
func TestValuesAboutTheSizeOfAChunk(t *testing.T) {
	const chunk = 64 << 10
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, 2*chunk - 1, 2 * chunk, 2*chunk + 1, 3 * chunk} {
			value := make([]byte, size)
			for i := range value {
				value[i] = byte(i*7 + i>>8)
			}
			same := func(what string, got []byte) {
				if !bytes.Equal(got, value) {
					t.Errorf("%s of %d bytes arrived as %d others", what, size, len(got))
				}
			}
			answer := cache.Answer{Kind: cache.KindHit, Entry: &cache.Entry{Value: value}}
			c.nodes[1].on(func(_ context.Context, req *cache.Request) (cache.Answer, error) {
				if req.Op == cache.OpPut {
					same("a put", req.Value)
				}
				return answer, nil
			})
			// The other end may fail to understand a frame.
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			for _, stored := range []bool{false, true} {
				if c.nodes[1].stored = nil; stored {
					c.nodes[1].stored = func(string) (cache.Answer, bool) { return answer, true }
				}
				if a, err := c.nodes[0].get(ctx, 1, "k"); err != nil {
					t.Errorf("a get of %d bytes: %v", size, err)
				} else {
					same("a get's value", a.Entry.Value)
				}
			}
			if err := c.nodes[0].put(ctx, 1, value); err != nil {
				t.Errorf("a put of %d bytes: %v", size, err)
			}
			for _, a := range c.nodes[0].getMany(ctx, 1, "k") {
				switch {
				case a.Entry != nil:
					same("a batch's value", a.Entry.Value)
				case size <= chunk:
					t.Errorf("a batch's value of %d bytes did not come", size)
				}
			}
			cancel()
		}
		for _, n := range c.nodes {
			if s := n.Stats(); s.BrokenFrames != 0 {
				t.Errorf("%s: %d links broke", n.id, s.BrokenFrames)
			}
		}
		c.checkBooks()
	})
}

// Answers that were lost on links to a process stay counted when another process
// takes its place at the address, and when a third one does.
func TestLostAnswersStayCountedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		peer, delivered := 0, 0
		lose := func() {
			t.Helper()
			c.net.Hold("n1:1", "n0:1")
			done := make(chan error)
			go func() { _, err := c.nodes[0].get(t.Context(), 1, "k"); done <- err }()
			synctest.Wait()
			c.net.Break("n0:1", "n1:1")
			c.net.Release("n1:1", "n0:1")
			if err := <-done; err != nil && !peers.NoAnswer(err) { // the circuit may be open meanwhile
				t.Error(err)
			}
			<-time.After(time.Second)
		}
		balanced := func(when string) {
			t.Helper()
			c.nodes[0].mu.Lock()
			peer = c.nodes[0].peer
			c.nodes[0].mu.Unlock()
			c.nodes[1].mu.Lock()
			now := delivered + c.nodes[1].delivered
			c.nodes[1].mu.Unlock()
			if a := c.nodes[0].Stats().Abandoned; int64(peer) != int64(now)+a {
				t.Errorf("%s: peer %d, delivered %d, abandoned %d", when, peer, now, a)
			}
		}
		for restart := range 3 {
			for range restart + 1 {
				lose()
			}
			balanced(fmt.Sprintf("before restart %d", restart+1))
			c.nodes[1].kill()
			delivered += c.nodes[1].delivered
			c.nodes[1] = c.node(1)
			c.nodes[1].run()
			await(t, "the new process called", func() bool {
				m := c.nodes[0].Standings().Of("n1")
				return m.State == peers.StateActive && m.Incarnation == c.nodes[1].Standings().Of("n1").Incarnation
			})
			<-time.After(time.Second)
			balanced(fmt.Sprintf("after restart %d", restart+1))
			if _, err := c.nodes[0].get(t.Context(), 1, "k"); err != nil {
				t.Error(err)
			}
			balanced(fmt.Sprintf("a get after restart %d", restart+1))
		}
	})
}

// An answer that never was on the link is on the books of the node that asked alone.
func TestAnAnswerThatCouldNotBeWrittenIsNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindLoad, Node: "n1", Entry: &cache.Entry{Value: make([]byte, 2<<20)}}, nil
		})
		for range 3 {
			c.net.Hold("n1:1", "n0:1") // there is no room for all of it
			done := make(chan error)
			go func() { _, err := c.nodes[0].get(t.Context(), 1, "k"); done <- err }()
			synctest.Wait()
			c.net.Break("n0:1", "n1:1")
			c.net.Release("n1:1", "n0:1")
			if err := <-done; err != nil && !peers.NoAnswer(err) { // the circuit may be open meanwhile
				t.Error(err)
			}
			<-time.After(time.Second)
		}
		if n := c.nodes[1]; n.delivered != 3 || n.lost != 3 {
			t.Errorf("%d answers were delivered, %d lost, want three each", n.delivered, n.lost)
		}
		c.checkBooks()
	})
}

// A link of a process that has gone may end when its successor is there already. The
// answers on it are not the successor's.
func TestALateEndOfAPredecessorsLinkIsNotTheSuccessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		for range 5 {
			if _, err := c.nodes[0].get(t.Context(), 1, "k"); err != nil {
				t.Fatal(err)
			}
		}
		block := make(chan struct{})
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			<-block // also when its caller has gone
			return cache.Answer{}, context.Canceled
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = c.nodes[0].get(ctx, 1, "k") }()
		synctest.Wait()
		cancel()
		c.nodes[0].kill()
		c.nodes[0] = c.node(0)
		c.nodes[0].run()
		await(t, "links both ways", func() bool {
			there, _ := c.nodes[1].open("n0")
			here, _ := c.nodes[0].open("n1")
			return !there && !here && c.nodes[1].Stats().Incoming > 0
		})
		close(block)
		<-time.After(time.Second)
		c.net.Break("n0:1", "n1:1")
		<-time.After(time.Second)
		if a := c.nodes[0].Stats().Abandoned; a != int64(c.nodes[0].peer) {
			t.Errorf("%d abandoned of %d that were not answered", a, c.nodes[0].peer)
		}
	})
}

func TestCallsThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		n := c.nodes[0]
		long := getOf(strings.Repeat("k", 1<<20))
		if _, err := n.Call(t.Context(), "n1", long); !errors.Is(err, cache.ErrKeyTooLong) {
			t.Errorf("a key that has no room in a frame: %v", err)
		}
		if _, ok := n.Begin(t.Context(), "n1", long); ok {
			t.Error("such a call was begun")
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.Call(cancelled, "n1", getOf("k")); !errors.Is(err, context.Canceled) {
			t.Errorf("a call with a context that has ended: %v", err)
		}
		late, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		if _, err := n.Call(late, "n1", getOf("k")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call without time: %v", err)
		}
		c.nodes[2].kill()
		await(t, "circuit open", func() bool { open, _ := n.open("n2"); return open })
		if _, err := n.Call(t.Context(), "n2", getOf("k")); !peers.NoAnswer(err) {
			t.Errorf("a call to a member that is not there: %v", err)
		}
		if _, ok := n.Begin(t.Context(), "n2", getOf("k")); ok {
			t.Error("a call without a link was begun")
		}
		if open, gone := n.Down(t.Context(), "n2"); !open || !gone {
			t.Errorf("open %v, gone %v", open, gone)
		}
		if open, _ := n.Down(t.Context(), "n1"); open || n.Standings().Of("n1").State != peers.StateActive || n.Standings().CanCall("nobody") {
			t.Errorf("%+v", n.Members())
		}
		if n := len(c.nodes[1].served); n != 0 {
			t.Errorf("%d calls have arrived", n)
		}
	})
}

// A call while no link is there waits for one, and ends with its context or with its
// node.
func TestACallWaitsForALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 2)
		n := c.nodes[0]
		c.net.Hold("n1:1", "n0:1")
		c.nodes[1].run()
		n.run()
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := n.Call(short, "n1", getOf("k")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without time: %v", err)
		}
		ended := make(chan error)
		go func() { _, err := n.Call(t.Context(), "n1", getOf("k")); ended <- err }()
		synctest.Wait()
		n.Close()
		if err := <-ended; !errors.Is(err, cache.ErrDraining) {
			t.Errorf("the node is stopping: %v", err)
		}
		c.net.Release("n1:1", "n0:1")
	})
}

// The link takes nothing more. A call that waits for room ends with its context.
func TestACallWaitsForRoomOnTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		n := c.nodes[0]
		c.net.Hold("n0:1", "n1:1")
		var putting sync.WaitGroup
		for range 30 {
			putting.Go(func() {
				if err := n.put(t.Context(), 1, make([]byte, 1<<20)); err != nil && !peers.NoAnswer(err) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := n.put(short, 1, make([]byte, 1<<20)); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("its time is up: %v", err)
		}
		short, cancel = context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if err := n.put(short, 1, make([]byte, 1<<20)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if err := n.put(t.Context(), 1, make([]byte, 1<<20)); !peers.NoAnswer(err) {
			t.Errorf("taken for silent: %v", err)
		}
		c.net.Release("n0:1", "n1:1")
		putting.Wait()
	})
}

func TestTheRequestIDCrossesTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		var got any
		c.nodes[1].on(func(ctx context.Context, _ *cache.Request) (cache.Answer, error) {
			got = ctx.Value(cache.RequestIDKey{})
			return cache.Answer{Kind: cache.KindHit, Entry: &cache.Entry{}}, nil
		})
		for id, want := range map[string]any{"abc": "abc", "": nil, strings.Repeat("x", 200): nil} {
			if _, err := c.nodes[0].get(context.WithValue(t.Context(), cache.RequestIDKey{}, id), 1, "k"); err != nil || got != want {
				t.Errorf("%q arrived as %v, %v", id, got, err)
			}
		}
	})
}

// Without a room of its own a node takes all values.
func TestANodeWithoutARoomTakesAllValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindHit, Entry: &cache.Entry{Value: make([]byte, 1<<20)}}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		if a, err := c.nodes[0].get(ctx, 1, "k"); err != nil || len(a.Entry.Value) != 1<<20 {
			t.Error(err)
		}
		cancel()
		synctest.Wait()
		c.checkBooks()
	})
}

// A member whose circuit is open and that has no link is given a moment: the next
// attempt may find that it has gone.
func TestDownWaitsForTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Pointer[error]
		c := start(t, 2, func(i int, o *peers.Options) {
			if dial := o.Dial; i == 0 {
				o.Dial = func(ctx context.Context, to string) (net.Conn, error) {
					if err := fails.Load(); err != nil {
						return nil, *err
					}
					return dial(ctx, to)
				}
			}
		})
		n := c.nodes[0]
		unreachable := error(syscall.EHOSTUNREACH)
		fails.Store(&unreachable)
		c.net.Break("n0:1", "n1:1")
		await(t, "circuit open", func() bool { open, _ := n.open("n1"); return open })
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if open, gone := n.Down(ctx, "n1"); !open || gone {
			t.Errorf("without time: open %v, gone %v", open, gone)
		}
		began := time.Now()
		if open, gone := n.Down(t.Context(), "n1"); !open || gone || time.Since(began) > time.Second {
			t.Errorf("open %v, gone %v after %v", open, gone, time.Since(began))
		}
		refused := error(syscall.ECONNREFUSED)
		fails.Store(&refused)
		await(t, "gone", func() bool { open, gone := n.Down(t.Context(), "n1"); return open && gone })
		fails.Store(nil)
		await(t, "circuit closed", func() bool { open, _ := n.Down(t.Context(), "n1"); return !open })
	})
}
