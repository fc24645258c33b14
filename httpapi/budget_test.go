package httpapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

// quietness is what a test says of each connection.
type quietness map[*connection]time.Duration

func testBudget(most int64, quiet quietness) (*budget, *[]*connection) {
	ended := new([]*connection)
	return &budget{
		max: most, why: "full", quietAfter: time.Second,
		quiet:    func(c *connection, _ time.Time) time.Duration { return quiet[c] },
		turnAway: func(c *connection) { *ended = append(*ended, c) },
		shares:   make(map[*share]struct{}), entries: make(map[*cache.Entry]charge),
	}, ended
}

func TestARequestWaitsForRoomAndIsThenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(10, nil)
		first, second, third := b.share(nil), b.share(nil), b.share(nil)
		if err := first.take(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, first.release)
		began := time.Now()
		if err := second.take(t.Context(), 5); err != nil {
			t.Fatalf("with room after a second: %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %v", took)
		}
		if err := third.take(t.Context(), 6); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("without room: %v, want overloaded", err)
		}
		if b.refused.Load() != 1 || b.inUse() != 5 {
			t.Errorf("%d refused, %d bytes in use", b.refused.Load(), b.inUse())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := third.take(ctx, 6); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's time ended first: %v", err)
		}
		if err := third.take(t.Context(), 5); err != nil {
			t.Errorf("what fits, after those that gave up: %v", err)
		}
		third.give(2)
		third.release()
		third.release()
		second.release()
		if b.inUse() != 0 || b.queue.Len() != 0 {
			t.Errorf("%d bytes in use, %d wait", b.inUse(), b.queue.Len())
		}
	})
}

func TestRoomGoesToTheFirstThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(10, nil)
		held := b.share(nil)
		if err := held.take(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		order := make(chan int64, 4)
		ask := func(n int64) {
			go func() {
				s := b.share(nil)
				if err := s.take(t.Context(), n); err != nil {
					t.Error(err)
				}
				order <- n
				time.Sleep(100 * time.Millisecond)
				s.release()
			}()
			synctest.Wait()
		}
		for _, n := range []int64{9, 1, 2} {
			ask(n)
		}
		held.give(4) // enough for the small ones, but not for the first
		synctest.Wait()
		ask(3) // nor may one that comes only now go before it
		if len(order) != 0 {
			t.Errorf("%v overtook the first", <-order)
		}
		held.release()
		time.Sleep(time.Second)
		synctest.Wait()
		close(order)
		var got []int64
		for n := range order {
			got = append(got, n)
		}
		if len(got) != 4 || got[0]+got[1] != 9+1 {
			t.Errorf("room was given in the order %v", got)
		}
	})
}

// Who gives up waiting no longer holds up those behind it.
func TestWhoGivesUpLetsInThoseBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(10, nil)
		if err := b.share(nil).take(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var first, behind error
		var waiting atomic.Int32
		for _, ask := range []func(){
			func() { first = b.share(nil).take(ctx, 5) },
			func() { behind = b.share(nil).take(t.Context(), 2) },
		} {
			waiting.Add(1)
			go func() { ask(); waiting.Add(-1) }()
			synctest.Wait()
		}
		if n := waiting.Load(); n != 2 {
			t.Fatalf("%d wait, want both", n)
		}
		cancel()
		synctest.Wait()
		if n := waiting.Load(); n != 0 {
			t.Fatalf("%d of the two wait yet, although the first has given up", n)
		}
		if !errors.Is(first, context.Canceled) || behind != nil || b.inUse() != 10 {
			t.Errorf("the first: %v, the one behind it: %v; %d bytes in use", first, behind, b.inUse())
		}
	})
}

// Nobody is turned away for room that somebody is about to give back.
func TestThoseOnTheirWayOutAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet, quietest := new(connection), new(connection)
		b, ended := testBudget(20, quietness{quiet: 2 * time.Second, quietest: 3 * time.Second})
		slow := b.share(quietest)
		for _, s := range []*share{slow, b.share(quiet)} {
			if err := s.take(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		end := b.turnAway
		b.turnAway = func(c *connection) { end(c); time.AfterFunc(4*lookEvery, slow.release) }
		time.Sleep(2 * lookEvery)
		if err := b.share(new(connection)).take(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if len(*ended) != 1 || (*ended)[0] != quietest {
			t.Errorf("%d were turned away, want the quietest alone", len(*ended))
		}
	})
}

// Those that need little do not wait behind one that needs much, while there is
// room for them.
func TestALittleRoomIsThereForWhoNeedsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(1000, nil)
		held, large, little := b.share(nil), b.share(nil), b.share(nil)
		if err := held.take(t.Context(), 995); err != nil {
			t.Fatal(err)
		}
		go func() {
			if err := large.take(t.Context(), 500); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		began := time.Now()
		for range 5 {
			if err := little.take(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v behind one that needs much", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := little.take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without any room: %v, want the end of the wait", err)
		}
		held.release()
		synctest.Wait()
		little.release()
		large.release()
	})
}

// Whoever is kept out by what is left to small requests alone is let in for one
// who is quiet, too.
func TestTheQuietMakeRoomBesideTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := new(connection)
		b, ended := testBudget(1024, quietness{quiet: 2 * time.Second})
		b.reserve = 16
		held, newcomer := b.share(quiet), b.share(new(connection))
		b.turnAway = func(c *connection) { *ended = append(*ended, c); time.AfterFunc(time.Millisecond, held.release) }
		for _, s := range []*share{held, newcomer} {
			if err := s.take(t.Context(), 512); err != nil {
				t.Fatal(err)
			}
		}
		if len(*ended) != 1 || (*ended)[0] != quiet {
			t.Errorf("%d were ended, want the one that was quiet", len(*ended))
		}
		newcomer.release()
	})
}

// Large answers leave some room to small ones.
func TestLargeAnswersLeaveRoomToSmallOnes(t *testing.T) {
	const most = 64 << 20
	r := NewResponses(most)
	large := 0
	for r.Take(&cache.Entry{}, 1<<20) {
		large++
	}
	if large != 63 {
		t.Errorf("%d values of 1 MiB had room, want 63", large)
	}
	small := 0
	for r.Take(&cache.Entry{}, 64<<10) {
		small++
	}
	if small != 16 || r.inUse() != most {
		t.Errorf("%d values of 64 KiB had room beside them, want 16; %d bytes in use", small, r.inUse())
	}
	alone := NewResponses(most)
	if !alone.Take(&cache.Entry{}, most) {
		t.Error("one that takes all has no room when it is alone")
	}
}

func TestMoreThanTheWholeBudgetGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(10, nil)
		large, small := b.share(nil), b.share(nil)
		if err := large.take(t.Context(), 50); err != nil {
			t.Fatalf("alone: %v", err)
		}
		if err := small.take(t.Context(), 1); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("beside it: %v", err)
		}
		large.release()
		if err := small.take(t.Context(), 1); err != nil {
			t.Error(err)
		}
		if err := large.take(t.Context(), 50); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("beside another: %v", err)
		}
	})
}

func TestTheQuietestMakesRoomAndNoMoreThanMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick, recent, quiet, quietest := new(connection), new(connection), new(connection), new(connection)
		b, ended := testBudget(40, quietness{recent: 900 * time.Millisecond, quiet: 2 * time.Second, quietest: 3 * time.Second})
		shares := map[*connection]*share{}
		for _, c := range []*connection{quick, quiet, quietest, recent} {
			shares[c] = b.share(c)
			if err := shares[c].take(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		b.looked = time.Time{}
		end := b.turnAway
		b.turnAway = func(c *connection) { end(c); time.AfterFunc(time.Millisecond, shares[c].release) }
		newcomer := b.share(new(connection))
		if err := newcomer.take(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if len(*ended) != 1 || (*ended)[0] != quietest {
			t.Fatalf("%d were ended, want the quietest alone", len(*ended))
		}
		if err := newcomer.take(t.Context(), 15); err != nil {
			t.Fatal(err)
		}
		if len(*ended) != 2 || (*ended)[1] != quiet {
			t.Errorf("%d were ended, want the two that were quiet", len(*ended))
		}
		if err := newcomer.take(t.Context(), 10); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("all others do something: %v, want overloaded", err)
		}
		if b.turnedAway.Load() != 2 {
			t.Errorf("%d counted", b.turnedAway.Load())
		}
	})
}

func TestAnEntryIsChargedOnceHoweverManyReadIt(t *testing.T) {
	b, _ := testBudget(100, nil)
	one, other := &cache.Entry{Value: make([]byte, 60)}, &cache.Entry{Value: make([]byte, 30)}
	var shares []*share
	for range 50 {
		s := b.share(new(connection))
		if err := s.hold(t.Context(), []*cache.Entry{one, one, other}); err != nil {
			t.Fatal(err)
		}
		shares = append(shares, s)
	}
	if b.inUse() != 90 {
		t.Errorf("%d bytes in use, want 90", b.inUse())
	}
	for _, s := range shares {
		s.drop(one)
	}
	if b.inUse() != 90 {
		t.Errorf("one of two that each holds was dropped: %d bytes", b.inUse())
	}
	for _, s := range shares {
		s.drop(one)
		s.drop(one)
	}
	if b.inUse() != 30 {
		t.Errorf("the other is held: %d bytes", b.inUse())
	}
	for _, s := range shares {
		s.release()
	}
	if b.inUse() != 0 || len(b.entries) != 0 || len(b.shares) != 0 {
		t.Errorf("%d bytes, %d entries, %d shares are left", b.inUse(), len(b.entries), len(b.shares))
	}
}

// A request that waits for room does not keep its value in memory: then it would
// have what it waits for.
func TestAValueIsNotKeptWhileThereIsNoRoomForIt(t *testing.T) {
	b, _ := testBudget(100, nil)
	full := b.share(nil)
	if err := full.take(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	stored, evicted := &cache.Entry{Value: make([]byte, 40)}, make(chan struct{})
	gone := &cache.Entry{Value: make([]byte, 40)}
	runtime.AddCleanup(gone, func(c chan struct{}) { close(c) }, evicted)
	entries := []*cache.Entry{stored, gone}
	gone = nil
	done := make(chan error, 1)
	s := b.share(nil)
	go func() { done <- s.hold(t.Context(), entries) }()
	for collected := false; !collected; {
		runtime.GC()
		select {
		case <-evicted:
			collected = true
		case err := <-done:
			t.Fatalf("the value was kept to the end: %v", err)
		default:
		}
	}
	full.release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if entries[0] != stored || entries[1] != nil || b.inUse() != 40 {
		t.Errorf("%v, %d bytes in use; want what is stored yet, and 40 bytes", entries, b.inUse())
	}
	s.release()
	if b.inUse() != 0 || len(b.entries) != 0 {
		t.Errorf("%d bytes are left", b.inUse())
	}
	runtime.KeepAlive(stored)
}

// What arrives from another node stays charged from its first byte to the last
// that is written of it.
func TestAValueOfAnotherNodeIsChargedOnceOnItsWay(t *testing.T) {
	r := NewResponses(100)
	e := &cache.Entry{}
	if !r.Take(e, 70) || r.inUse() != 70 {
		t.Fatalf("%d bytes in use", r.inUse())
	}
	if r.Take(&cache.Entry{}, 40) {
		t.Error("there was no room for another")
	}
	e.Value = make([]byte, 70)
	s := r.share(nil)
	if err := s.hold(t.Context(), []*cache.Entry{e}); err != nil {
		t.Fatal(err)
	}
	r.Give(e)
	if r.inUse() != 70 {
		t.Errorf("%d bytes in use while it is written", r.inUse())
	}
	s.release()
	if r.inUse() != 0 {
		t.Errorf("%d bytes in use afterwards", r.inUse())
	}
	synctest.Test(t, func(t *testing.T) {
		r := NewResponses(100)
		first, second := &cache.Entry{}, &cache.Entry{}
		r.Take(first, 70)
		time.AfterFunc(time.Second, func() { r.Give(first) })
		if err := r.Wait(t.Context(), second, 40); err != nil || r.inUse() != 40 {
			t.Errorf("%v, %d bytes in use", err, r.inUse())
		}
		if err := r.Wait(t.Context(), &cache.Entry{}, 70); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("%v, want overloaded", err)
		}
		r.Give(second)
		r.Give(second)
		if r.inUse() != 0 {
			t.Errorf("%d bytes in use afterwards", r.inUse())
		}
	})
}

// Whatever requests do, and in whatever order, the bytes in use are the sum of
// what they hold, at most the budget, and nothing in the end.
func TestTheBudgetsBooksBalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1000
		b, _ := testBudget(most, nil)
		b.turnAway = func(*connection) {}
		entries := make([]*cache.Entry, 20)
		for i := range entries {
			entries[i] = &cache.Entry{Value: make([]byte, 10+10*i)}
		}
		for seed := range 50 {
			go func() {
				random := rand.New(rand.NewPCG(uint64(seed), 1))
				for range 40 {
					s := b.share(new(connection))
					for range 1 + random.IntN(4) {
						if random.IntN(2) == 0 {
							n := int64(1 + random.IntN(200))
							if s.take(t.Context(), n) == nil && random.IntN(2) == 0 {
								s.give(n / 2)
							}
						} else {
							some := []*cache.Entry{entries[random.IntN(20)], entries[random.IntN(20)]}
							if err := s.hold(t.Context(), some); err == nil {
								s.drop(some[0])
							}
						}
						time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
					}
					s.release()
				}
			}()
		}
		for range 2000 {
			synctest.Wait() // for those that have been given room to say for what
			b.mu.Lock()
			sum := int64(0)
			for _, c := range b.entries {
				sum += c.bytes
			}
			for s := range b.shares {
				sum += s.flat
			}
			if b.used != sum || b.used > most {
				t.Errorf("%d bytes in use of %d, %d held", b.used, most, sum)
			}
			b.mu.Unlock()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Hour) // far longer than they take, each of their waits included
		synctest.Wait()
		if b.inUse() != 0 || len(b.entries) != 0 || len(b.shares) != 0 {
			t.Errorf("%d bytes, %d entries, %d shares are left", b.inUse(), len(b.entries), len(b.shares))
		}
	})
}
