package httpserver

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Large answers leave some room to small ones.
func TestLargeAnswersLeaveRoomToSmallOnes(t *testing.T) {
	const most = 64 << 20
	r := newAnswers(most)
	large := 0
	for r.Take(&value{}, 1<<20) {
		large++
	}
	if large != 63 {
		t.Errorf("%d values of 1 MiB had room, want 63", large)
	}
	small := 0
	for r.Take(&value{}, 64<<10) {
		small++
	}
	if small != 16 || r.inUse() != most {
		t.Errorf("%d values of 64 KiB had room beside them, want 16; %d bytes in use", small, r.inUse())
	}
	alone := newAnswers(most)
	if !alone.Take(&value{}, most) {
		t.Error("one that takes all has no room when it is alone")
	}
}

func TestAnEntryIsChargedOnceHoweverManyReadIt(t *testing.T) {
	b, _ := testAnswers(100, nil)
	one, other := &value{bytes: make([]byte, 60)}, &value{bytes: make([]byte, 30)}
	var shares []*Answer[value]
	for range 50 {
		s := b.answer(new(connection))
		if err := s.Hold(t.Context(), []*value{one, one, other}); err != nil {
			t.Fatal(err)
		}
		shares = append(shares, s)
	}
	if b.inUse() != 90 {
		t.Errorf("%d bytes in use, want 90", b.inUse())
	}
	for _, s := range shares {
		s.Drop(one)
	}
	if b.inUse() != 90 {
		t.Errorf("one of two that each holds was dropped: %d bytes", b.inUse())
	}
	for _, s := range shares {
		s.Drop(one)
		s.Drop(one)
	}
	if b.inUse() != 30 {
		t.Errorf("the other is held: %d bytes", b.inUse())
	}
	for _, s := range shares {
		s.Release()
	}
	if b.inUse() != 0 || len(b.charges) != 0 || len(b.shares) != 0 {
		t.Errorf("%d bytes, %d entries, %d shares are left", b.inUse(), len(b.charges), len(b.shares))
	}
}

// A request that waits for room does not keep its value in memory, or its wait
// would save none.
func TestAValueIsNotKeptWhileThereIsNoRoomForIt(t *testing.T) {
	b, _ := testAnswers(100, nil)
	full := b.answer(nil)
	if err := full.Take(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	stored, evicted := &value{bytes: make([]byte, 40)}, make(chan struct{})
	gone := &value{bytes: make([]byte, 40)}
	runtime.AddCleanup(gone, func(c chan struct{}) { close(c) }, evicted)
	entries := []*value{stored, gone}
	gone = nil
	done := make(chan error, 1)
	s := b.answer(nil)
	go func() { done <- s.Hold(t.Context(), entries) }()
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
	full.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if entries[0] != stored || entries[1] != nil || b.inUse() != 40 {
		t.Errorf("%v, %d bytes in use; want what is stored yet, and 40 bytes", entries, b.inUse())
	}
	s.Release()
	if b.inUse() != 0 || len(b.charges) != 0 {
		t.Errorf("%d bytes are left", b.inUse())
	}
	runtime.KeepAlive(stored)
}

// A value from another node is charged from its first byte that arrives to its
// last byte that is written.
func TestAValueOfAnotherNodeIsChargedOnceOnItsWay(t *testing.T) {
	r := newAnswers(100)
	e := &value{}
	if !r.Take(e, 70) || r.inUse() != 70 {
		t.Fatalf("%d bytes in use", r.inUse())
	}
	if r.Take(&value{}, 40) {
		t.Error("there was no room for another")
	}
	e.bytes = make([]byte, 70)
	s := r.answer(nil)
	if err := s.Hold(t.Context(), []*value{e}); err != nil {
		t.Fatal(err)
	}
	r.Give(e)
	if r.inUse() != 70 {
		t.Errorf("%d bytes in use while it is written", r.inUse())
	}
	s.Release()
	if r.inUse() != 0 {
		t.Errorf("%d bytes in use afterwards", r.inUse())
	}
	synctest.Test(t, func(t *testing.T) {
		r := newAnswers(100)
		first, second := &value{}, &value{}
		r.Take(first, 70)
		time.AfterFunc(time.Second, func() { r.Give(first) })
		if err := r.Wait(t.Context(), second, 40); err != nil || r.inUse() != 40 {
			t.Errorf("%v, %d bytes in use", err, r.inUse())
		}
		if err := r.Wait(t.Context(), &value{}, 70); !errors.Is(err, errFull) {
			t.Errorf("%v, want full", err)
		}
		r.Give(second)
		r.Give(second)
		if r.inUse() != 0 {
			t.Errorf("%d bytes in use afterwards", r.inUse())
		}
	})
}

// The bytes in use are always the sum of what requests hold, never more than the
// budget, and 0 in the end.
func TestTheBudgetsBooksBalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1000
		b, _ := testAnswers(most, nil)
		b.turnAway = func(*connection) {}
		entries := make([]*value, 20)
		for i := range entries {
			entries[i] = &value{bytes: make([]byte, 10+10*i)}
		}
		for seed := range 50 {
			go func() {
				random := rand.New(rand.NewPCG(uint64(seed), 1))
				for range 40 {
					s := b.answer(new(connection))
					for range 1 + random.IntN(4) {
						if random.IntN(2) == 0 {
							n := int64(1 + random.IntN(200))
							if s.Take(t.Context(), n) == nil && random.IntN(2) == 0 {
								s.Give(n / 2)
							}
						} else {
							some := []*value{entries[random.IntN(20)], entries[random.IntN(20)]}
							if err := s.Hold(t.Context(), some); err == nil {
								s.Drop(some[0])
							}
						}
						time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
					}
					s.Release()
				}
			}()
		}
		for range 2000 {
			synctest.Wait() // until each that got room has accounted for it
			b.mu.Lock()
			sum := int64(0)
			for _, c := range b.charges {
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
		if b.inUse() != 0 || len(b.charges) != 0 || len(b.shares) != 0 {
			t.Errorf("%d bytes, %d entries, %d shares are left", b.inUse(), len(b.charges), len(b.shares))
		}
	})
}
