package httpserver

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// quietness is how long each connection has been quiet.
type quietness map[*connection]time.Duration

var errFull = errors.New("full")

func testBudget(most int64, quiet quietness) (*Budget, *[]*connection) {
	a, ended := testAnswers(most, quiet)
	return &a.Budget, ended
}

// testAnswers is a budget of answers that leaves no room to small ones.
func testAnswers(most int64, quiet quietness) (*Answers[value], *[]*connection) {
	ended := new([]*connection)
	a := newAnswers(most)
	a.reserve, a.quietAfter = 0, time.Second
	a.quiet = func(c *connection, _ time.Time) time.Duration { return quiet[c] }
	a.turnAway = func(c *connection) { *ended = append(*ended, c) }
	return a, ended
}

// value is what answers hold in these tests.
type value struct{ bytes []byte }

func newAnswers(most int64) *Answers[value] {
	return NewAnswers(most, errFull, func(v *value) int64 { return int64(len(v.bytes)) })
}

func TestARequestWaitsForRoomAndIsThenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(10, nil)
		first, second, third := b.share(nil), b.share(nil), b.share(nil)
		if err := first.Take(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, first.Release)
		began := time.Now()
		if err := second.Take(t.Context(), 5); err != nil {
			t.Fatalf("with room after a second: %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %v", took)
		}
		if err := third.Take(t.Context(), 6); !errors.Is(err, errFull) {
			t.Errorf("without room: %v, want full", err)
		}
		if b.refused.Load() != 1 || b.inUse() != 5 {
			t.Errorf("%d refused, %d bytes in use", b.refused.Load(), b.inUse())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := third.Take(ctx, 6); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's time ended first: %v", err)
		}
		if err := third.Take(t.Context(), 5); err != nil {
			t.Errorf("what fits, after those that gave up: %v", err)
		}
		third.Give(2)
		third.Release()
		third.Release()
		second.Release()
		if b.inUse() != 0 || b.queue.Len() != 0 {
			t.Errorf("%d bytes in use, %d wait", b.inUse(), b.queue.Len())
		}
	})
}

func TestRoomGoesToTheFirstThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(10, nil)
		held := b.share(nil)
		if err := held.Take(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		order := make(chan int64, 4)
		ask := func(n int64) {
			go func() {
				s := b.share(nil)
				if err := s.Take(t.Context(), n); err != nil {
					t.Error(err)
				}
				order <- n
				time.Sleep(100 * time.Millisecond)
				s.Release()
			}()
			synctest.Wait()
		}
		for _, n := range []int64{9, 1, 2} {
			ask(n)
		}
		held.Give(4) // enough for the small ones, but not for the first
		synctest.Wait()
		ask(3) // nor may one that comes only now go before it
		if len(order) != 0 {
			t.Errorf("%v overtook the first", <-order)
		}
		held.Release()
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

// A request that gives up waiting no longer holds up the next ones.
func TestARequestThatGivesUpLetsInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(10, nil)
		if err := b.share(nil).Take(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var first, behind error
		var waiting atomic.Int32
		for _, ask := range []func(){
			func() { first = b.share(nil).Take(ctx, 5) },
			func() { behind = b.share(nil).Take(t.Context(), 2) },
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

// No client is turned away for room that another is about to give back.
func TestRoomThatIsAboutToBeFreeIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet, quietest := new(connection), new(connection)
		b, ended := testBudget(20, quietness{quiet: 2 * time.Second, quietest: 3 * time.Second})
		slow := b.share(quietest)
		for _, s := range []*Share{slow, b.share(quiet)} {
			if err := s.Take(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		end := b.turnAway
		b.turnAway = func(c *connection) { end(c); time.AfterFunc(4*lookEvery, slow.Release) }
		time.Sleep(2 * lookEvery)
		if err := b.share(new(connection)).Take(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if len(*ended) != 1 || (*ended)[0] != quietest {
			t.Errorf("%d were turned away, want the quietest alone", len(*ended))
		}
	})
}

// A request that needs little does not wait behind one that needs much, while
// there is room for it.
func TestALittleRoomIsThereForWhoNeedsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(1000, nil)
		held, large, little := b.share(nil), b.share(nil), b.share(nil)
		if err := held.Take(t.Context(), 995); err != nil {
			t.Fatal(err)
		}
		go func() {
			if err := large.Take(t.Context(), 500); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		began := time.Now()
		for range 5 {
			if err := little.Take(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v behind one that needs much", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := little.Take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without any room: %v, want the end of the wait", err)
		}
		held.Release()
		synctest.Wait()
		little.Release()
		large.Release()
	})
}

// A request that only the reserve for small ones keeps out gets the room of a
// quiet client, too.
func TestTheQuietMakeRoomBesideTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := new(connection)
		b, ended := testBudget(1024, quietness{quiet: 2 * time.Second})
		b.reserve = 16
		held, newcomer := b.share(quiet), b.share(new(connection))
		b.turnAway = func(c *connection) { *ended = append(*ended, c); time.AfterFunc(time.Millisecond, held.Release) }
		for _, s := range []*Share{held, newcomer} {
			if err := s.Take(t.Context(), 512); err != nil {
				t.Fatal(err)
			}
		}
		if len(*ended) != 1 || (*ended)[0] != quiet {
			t.Errorf("%d were ended, want the one that was quiet", len(*ended))
		}
		newcomer.Release()
	})
}

func TestMoreThanTheWholeBudgetGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := testBudget(10, nil)
		large, small := b.share(nil), b.share(nil)
		if err := large.Take(t.Context(), 50); err != nil {
			t.Fatalf("alone: %v", err)
		}
		if err := small.Take(t.Context(), 1); !errors.Is(err, errFull) {
			t.Errorf("beside it: %v", err)
		}
		large.Release()
		if err := small.Take(t.Context(), 1); err != nil {
			t.Error(err)
		}
		if err := large.Take(t.Context(), 50); !errors.Is(err, errFull) {
			t.Errorf("beside another: %v", err)
		}
	})
}

func TestTheQuietestMakesRoomAndNoMoreThanMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick, recent, quiet, quietest := new(connection), new(connection), new(connection), new(connection)
		b, ended := testBudget(40, quietness{recent: 900 * time.Millisecond, quiet: 2 * time.Second, quietest: 3 * time.Second})
		shares := map[*connection]*Share{}
		for _, c := range []*connection{quick, quiet, quietest, recent} {
			shares[c] = b.share(c)
			if err := shares[c].Take(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		b.looked = time.Time{}
		end := b.turnAway
		b.turnAway = func(c *connection) { end(c); time.AfterFunc(time.Millisecond, shares[c].Release) }
		newcomer := b.share(new(connection))
		if err := newcomer.Take(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if len(*ended) != 1 || (*ended)[0] != quietest {
			t.Fatalf("%d were ended, want the quietest alone", len(*ended))
		}
		if err := newcomer.Take(t.Context(), 15); err != nil {
			t.Fatal(err)
		}
		if len(*ended) != 2 || (*ended)[1] != quiet {
			t.Errorf("%d were ended, want the two that were quiet", len(*ended))
		}
		if err := newcomer.Take(t.Context(), 10); !errors.Is(err, errFull) {
			t.Errorf("all others do something: %v, want full", err)
		}
		if b.turnedAway.Load() != 2 {
			t.Errorf("%d counted", b.turnedAway.Load())
		}
	})
}
