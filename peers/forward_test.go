package peers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

func TestEachKeyIsAnsweredByItsOwnerThroughAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		for i := range 30 {
			key := fmt.Sprintf("key-%d", i)
			owner := c.nodes[0].View().Ring.Get(key)
			for _, n := range c.nodes {
				a, err := n.get(t.Context(), key)
				if err != nil || a.Node != owner || string(a.Entry.Value) != key {
					t.Fatalf("%s at %s: %+v, %v", key, n.id, a, err)
				}
				if n.id != owner && (a.Kind != cache.KindPeer || a.OwnerKind != cache.KindLoad) {
					t.Errorf("kinds %v, %v", a.Kind, a.OwnerKind)
				}
			}
		}
		c.checkBooks()
	})
}

// Whoever gets no error relies on the entry: a batch would ask for ever.
func TestAnAnswerWithoutAnEntryIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindHit}, nil
		})
		a, err := c.nodes[0].get(t.Context(), c.key(1))
		if !errors.Is(err, cache.ErrInternal) || a.Kind != cache.KindPeer {
			t.Errorf("%+v, %v", a, err)
		}
		c.checkBooks()
	})
}

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
		key := c.key(1)
		a, err := c.nodes[0].get(t.Context(), key)
		if err != nil || !bytes.Equal(a.Entry.Value, big) || cap(a.Entry.Value) != len(big) {
			t.Errorf("got %d bytes in %d, %v", len(a.Entry.Value), cap(a.Entry.Value), err)
		}
		req := &cache.Request{Op: cache.OpPut, Key: cache.Key{Group: "g", Key: key}, Value: big, ID: 7}
		if _, err := c.nodes[0].Forward(t.Context(), req); err != nil {
			t.Error(err)
		}
		req.Value = make([]byte, 9<<20)
		if _, err := c.nodes[0].Forward(t.Context(), req); !errors.Is(err, cache.ErrValueTooLarge) {
			t.Errorf("9 MiB: %v", err)
		}
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindLoad, Entry: &cache.Entry{Value: make([]byte, 9<<20)}}, nil
		})
		if _, err := c.nodes[0].get(t.Context(), key); !errors.Is(err, cache.ErrOriginBadAnswer) {
			t.Errorf("answer of 9 MiB: %v", err)
		}
		c.checkBooks()
	})
}

func TestErrorsKeepTheirCodesAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(1)
		for _, want := range []*cache.Error{
			cache.ErrNotCached, cache.ErrOverloaded.With("too many loads"), cache.ErrOriginFailed.Because(errors.New("secret")),
		} {
			c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
				return cache.Answer{Kind: cache.KindRefused}, want
			})
			_, err := c.nodes[0].get(t.Context(), key)
			var got *cache.Error
			if !errors.Is(err, want) || !errors.As(err, &got) || got.Detail != want.Detail || got.Err != nil {
				t.Errorf("%v became %v", want, err)
			}
		}
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) { panic("oh") })
		if _, err := c.nodes[0].get(t.Context(), key); !errors.Is(err, cache.ErrInternal) {
			t.Errorf("a panic became %v", err)
		}
		c.checkBooks()
	})
}

func TestASlowLoadIsWaitedForToTheCallersOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(1, 2)
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
		if _, err := c.nodes[0].get(ctx, key); err != nil {
			t.Errorf("5 s of loading: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := c.nodes[0].get(ctx, key); !errors.Is(err, cache.ErrOriginTimeout) || time.Since(began) > 2100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.nodes[0].Forward(ctx, &cache.Request{Op: cache.OpDelete, Key: cache.Key{Group: "g", Key: key}, ID: 1})
		if !errors.Is(err, cache.ErrWriteUnconfirmed) {
			t.Errorf("write: %v", err)
		}
		if n := c.nodes[2].times(key); n != 0 {
			t.Errorf("a slow load was repeated elsewhere, %d times", n)
		}
		c.checkBooks()
	})
}

func TestACallersCancelReachesTheOwner(t *testing.T) {
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
		if _, err := c.nodes[0].get(ctx, c.key(1)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		select {
		case err := <-cancelled:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the owner works on for a caller that has left")
		}
		c.checkBooks()
	})
}

func TestADeadOwnersKeysAreAnsweredByTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2)
		if _, err := c.nodes[2].get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		c.nodes[0].kill()
		for range 5 {
			for _, n := range c.nodes[1:] {
				a, err := n.get(t.Context(), key)
				if err != nil || a.Node != "n1" {
					t.Fatalf("at %s: %+v, %v", n.id, a, err)
				}
			}
		}
		if n := c.nodes[2].times(key); n != 0 {
			t.Errorf("%d loads at a node that is not the next owner", n)
		}
		term, self := c.nodes[1].Acts(key)
		if !self || term == 0 {
			t.Errorf("term %d, self %v", term, self)
		}
	})
}

func TestAHungOwnerCostsOneShortWaitAndIsBackAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2)
		c.nodes[0].pause()
		began := time.Now()
		a, err := c.nodes[2].get(t.Context(), key)
		if waited := time.Since(began); err != nil || a.Node != "n1" || waited > 700*time.Millisecond {
			t.Errorf("after %v: %+v, %v", waited, a, err)
		}
		began = time.Now()
		if _, err := c.nodes[2].get(t.Context(), key); err != nil || time.Since(began) > 10*time.Millisecond {
			t.Errorf("the second one waited, too: %v, %v", time.Since(began), err)
		}
		first, _ := c.nodes[1].Acts(key)
		c.nodes[0].resume()
		began = time.Now()
		await(t, "owner back", func() bool { a, err := c.nodes[2].get(t.Context(), key); return err == nil && a.Node == "n0" })
		await(t, "owner back everywhere", func() bool { _, self := c.nodes[1].Acts(key); return !self })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("back after %v", took)
		}
		c.checkBooks()

		c.nodes[0].pause()
		await(t, "owner out again", func() bool { _, self := c.nodes[1].Acts(key); return self })
		if second, _ := c.nodes[1].Acts(key); first == 0 || second == first {
			t.Errorf("terms of two outages: %d, %d", first, second)
		}
		c.nodes[0].resume()
	})
}

// An owner that was paused finds writes in its sockets that were carried out
// elsewhere since, or given up, and newer ones were acknowledged.
func TestWhatWasGivenUpDuringAPauseIsNotCarriedOutAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := cache.Key{Group: "g", Key: c.key(0, 1, 2)}
		c.nodes[0].pause()
		var callers sync.WaitGroup
		for id, size := range []int{1, 60 << 10, 60 << 10, 100 << 10} { // one reader's buffer does not hold all
			callers.Go(func() {
				req := &cache.Request{Op: cache.OpPut, Key: key, Value: make([]byte, size), ID: uint64(id + 1)}
				if a, err := c.nodes[2].Forward(t.Context(), req); err != nil || a.Node != "n1" {
					t.Errorf("put %d: %+v, %v", id, a, err)
				}
			})
		}
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := c.nodes[1].Forward(ctx, &cache.Request{Op: cache.OpDelete, Key: key, ID: 100})
			if !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Error("delete:", err)
			}
		})
		callers.Go(func() {
			if left := c.nodes[2].Purge(t.Context(), "g", nil); !slices.Equal(left, []string{"n0"}) {
				t.Errorf("purge unconfirmed by %v", left)
			}
		})
		callers.Wait()
		synctest.Wait() // nothing is on its way to the sockets any more
		c.nodes[0].resume()
		await(t, "owner back", func() bool { a, err := c.nodes[2].get(t.Context(), key.Key); return err == nil && a.Node == "n0" })
		<-time.After(time.Second)
		if n := c.nodes[0]; len(n.writes)+len(n.dropped) != 0 {
			t.Errorf("%d writes were carried out after all, and groups %q dropped", len(n.writes), n.dropped)
		}
		if n := c.nodes[1]; len(n.writes) != 4 {
			t.Errorf("%d writes at the stand-in", len(n.writes))
		}
	})
}

func TestABrokenLinkBetweenTwoNodesIsBridgedByAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2)
		c.net.Hold("n2:1", "n0:1")
		c.net.Hold("n0:1", "n2:1")
		for range 3 {
			if a, err := c.nodes[2].get(t.Context(), key); err != nil || a.Node != "n0" {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		if n := c.nodes[1].Stats().PassedOn; n == 0 {
			t.Error("nothing was passed on")
		}
		c.net.Release("n2:1", "n0:1")
		c.net.Release("n0:1", "n2:1")
		c.checkBooks()
	})
}

func TestACancelledCallThatWasPassedOnIsInTheBooksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2)
		c.net.Hold("n2:1", "n0:1")
		await(t, "circuit open", func() bool { open, _ := c.nodes[2].open("n0"); return open })
		// The owner has an answer although the caller has gone; then it has none.
		for _, kind := range []cache.Kind{cache.KindLoad, cache.KindNone} {
			c.nodes[0].on(func(ctx context.Context, _ *cache.Request) (cache.Answer, error) {
				<-ctx.Done()
				if kind == cache.KindNone {
					return cache.Answer{}, ctx.Err()
				}
				return cache.Answer{Kind: kind, Entry: &cache.Entry{}}, nil
			})
			before := c.nodes[0].times(key)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, cancel)
			if _, err := c.nodes[2].get(ctx, key); !errors.Is(err, context.Canceled) {
				t.Errorf("%v: %v", kind, err)
			}
			c.checkBooks()
			if n := c.nodes[0].times(key) - before; n != 1 {
				t.Errorf("served %d times", n)
			}
		}
		if n := c.nodes[1].times(key); n != 0 {
			t.Errorf("%d times by the node that passed on", n)
		}
		c.net.Release("n2:1", "n0:1")
	})
}

func TestAnswersLostWithTheirLinkAreSettledByTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(1)
		c.net.Hold("n1:1", "n0:1") // answers are written, and lost when the link breaks
		done := make(chan error)
		go func() { _, err := c.nodes[0].get(t.Context(), key); done <- err }()
		synctest.Wait()
		c.net.Break("n0:1", "n1:1")
		c.net.Release("n1:1", "n0:1")
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.checkBooks()
	})
}

// Links that break at each put: nobody knows whether it happened, and as long
// as its owner lives no other node carries it out.
func TestAWriteStaysWithAnOwnerThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := cache.Key{Group: "g", Key: c.key(0, 1, 2)}
		c.nodes[0].on(func(ctx context.Context, _ *cache.Request) (cache.Answer, error) {
			c.net.Break("n0:1", "n2:1")
			<-ctx.Done()
			return cache.Answer{}, ctx.Err()
		})
		for _, op := range []cache.Op{cache.OpPut, cache.OpDelete} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := c.nodes[2].Forward(ctx, &cache.Request{Op: op, Key: key, ID: uint64(op)})
			cancel()
			if !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Errorf("operation %d: %v", op, err)
			}
		}
		if n := c.nodes[1].Stats().PassedOn; n != 0 {
			t.Errorf("another node was asked to pass it on, %d times", n)
		}
		if got := len(c.nodes[0].writes); got < 2 || got > 6 {
			t.Errorf("its owner was asked %d times, want up to three for each", got)
		}
		for _, n := range c.nodes[1:] {
			if len(n.writes) != 0 {
				t.Errorf("%s carried it out, too: %+v", n.id, n.writes)
			}
		}
		// A get goes on to the next owner, which passes it on.
		c.nodes[0].on(func(ctx context.Context, _ *cache.Request) (cache.Answer, error) {
			if c.nodes[1].Stats().PassedOn == 0 {
				c.net.Break("n0:1", "n2:1")
				<-ctx.Done()
				return cache.Answer{}, ctx.Err()
			}
			return cache.Answer{Kind: cache.KindHit, Node: "n0", Entry: &cache.Entry{}}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if a, err := c.nodes[2].get(ctx, key.Key); err != nil || a.Node != "n0" || c.nodes[1].Stats().PassedOn != 1 {
			t.Errorf("a get: %+v, %v; %d passed on", a, err, c.nodes[1].Stats().PassedOn)
		}
	})
}

func TestTheRoomOfLargePutsIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		put := func() error {
			req := &cache.Request{Op: cache.OpPut, Key: cache.Key{Group: "g", Key: c.key(1)}, Value: make([]byte, 1<<20), ID: 1}
			_, err := c.nodes[0].Forward(t.Context(), req)
			return err
		}
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

// Values about the size of a chunk cross the link both ways, alone and in a
// batch, whatever they do to frames.
func TestValuesAboutTheSizeOfAChunk(t *testing.T) {
	const chunk = 64 << 10
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(1)
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
			// What is not understood at the other end is not waited for.
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			for _, stored := range []bool{false, true} {
				if c.nodes[1].stored = nil; stored {
					c.nodes[1].stored = func(string) (cache.Answer, bool) { return answer, true }
				}
				if a, err := c.nodes[0].get(ctx, key); err != nil {
					t.Errorf("a get of %d bytes: %v", size, err)
				} else {
					same("a get's value", a.Entry.Value)
				}
			}
			_, err := c.nodes[0].Forward(ctx, &cache.Request{Op: cache.OpPut, Key: cache.Key{Group: "g", Key: key}, Value: value, ID: 1})
			if err != nil {
				t.Errorf("a put of %d bytes: %v", size, err)
			}
			_, answers := c.nodes[0].getMany(ctx, []string{key, key})
			for _, a := range answers {
				if a.Entry == nil {
					t.Errorf("a batch's value of %d bytes did not come", size)
				} else {
					same("a batch's value", a.Entry.Value)
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

// An answer that was passed on, and lost on its last way: the node that served
// it has it on its books, and the asker does not know.
func TestAPassedOnAnswerThatIsLostIsInTheBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2)
		c.net.Hold("n2:1", "n0:1")
		c.net.Hold("n0:1", "n2:1")
		await(t, "circuit open", func() bool { open, _ := c.nodes[2].open("n0"); return open })
		big := cache.Answer{Kind: cache.KindHit, Node: "n0", Entry: &cache.Entry{Value: make([]byte, 2<<20)}}
		c.nodes[0].on(func(context.Context, *cache.Request) (cache.Answer, error) { return big, nil })
		for round := range 3 {
			c.net.Hold("n1:1", "n2:1") // the answer is written in part
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			done := make(chan error)
			go func() { _, err := c.nodes[2].get(ctx, key); done <- err }()
			synctest.Wait()
			if n := c.nodes[0].times(key); n <= round {
				t.Fatalf("round %d: the owner was asked %d times", round, n)
			}
			c.net.Break("n1:1", "n2:1")
			c.net.Release("n1:1", "n2:1")
			if err := <-done; err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			cancel()
			<-time.After(time.Second)
		}
		c.net.Release("n2:1", "n0:1")
		c.net.Release("n0:1", "n2:1")
		c.checkBooks()
	})
}

// What was lost on links to a process stays counted when another takes its
// place at the address, and again with the next.
func TestLostAnswersStayCountedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(1)
		peer, served := 0, 0
		lose := func() {
			t.Helper()
			c.net.Hold("n1:1", "n0:1")
			done := make(chan error)
			go func() { _, err := c.nodes[0].get(t.Context(), key); done <- err }()
			synctest.Wait()
			c.net.Break("n0:1", "n1:1")
			c.net.Release("n1:1", "n0:1")
			if err := <-done; err != nil {
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
			now := served + c.nodes[1].settled
			c.nodes[1].mu.Unlock()
			if a := c.nodes[0].Stats().Abandoned; int64(peer) != int64(now)+a {
				t.Errorf("%s: peer %d, served %d, abandoned %d", when, peer, now, a)
			}
		}
		for restart := range 3 {
			for range restart + 1 {
				lose()
			}
			balanced(fmt.Sprintf("before restart %d", restart+1))
			c.nodes[1].kill()
			served += c.nodes[1].settled
			c.nodes[1] = c.node(1)
			c.nodes[1].run()
			await(t, "called again", func() bool { open, _ := c.nodes[0].open("n1"); return !open })
			<-time.After(time.Second)
			balanced(fmt.Sprintf("after restart %d", restart+1))
			if _, err := c.nodes[0].get(t.Context(), key); err != nil {
				t.Error(err)
			}
			balanced(fmt.Sprintf("a get after restart %d", restart+1))
		}
	})
}

// An answer that never was on the link is on nobody's books but the asker's.
func TestAnAnswerThatCouldNotBeWrittenIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(1)
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			return cache.Answer{Kind: cache.KindLoad, Node: "n1", Entry: &cache.Entry{Value: make([]byte, 2<<20)}}, nil
		})
		for range 3 {
			c.net.Hold("n1:1", "n0:1") // there is no room for all of it
			done := make(chan error)
			go func() { _, err := c.nodes[0].get(t.Context(), key); done <- err }()
			synctest.Wait()
			c.net.Break("n0:1", "n1:1")
			c.net.Release("n1:1", "n0:1")
			if err := <-done; err != nil {
				t.Error(err)
			}
			<-time.After(time.Second)
		}
		if n := c.nodes[1]; n.settled != 3 || n.lost != 3 {
			t.Errorf("%d answers settled as served, %d as lost, want three each", n.settled, n.lost)
		}
		c.checkBooks()
	})
}

// A link of a process that has gone ends when its successor is there already:
// what was sent on it is not the successor's.
func TestALateEndOfAPredecessorsLinkIsNotTheSuccessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(1)
		for range 5 {
			if _, err := c.nodes[0].get(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		block := make(chan struct{})
		c.nodes[1].on(func(context.Context, *cache.Request) (cache.Answer, error) {
			<-block // whatever becomes of its caller
			return cache.Answer{}, context.Canceled
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = c.nodes[0].get(ctx, key) }()
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
			t.Errorf("%d abandoned of %d that were not served", a, c.nodes[0].peer)
		}
	})
}
