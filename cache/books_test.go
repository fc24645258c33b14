package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

// The books balance with the requests that the origin saw, whatever happens at the
// same time.
func TestBooksAfterChaos(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, func(o *cache.Options) {
					o.MaxWaiters, o.Config.MaxBytes = 30, 40000
					g := &o.Groups[0]
					g.TTL, g.Jitter, g.RefreshAhead, g.NegativeTTL = 100*time.Millisecond, 0.5, 0.3, 50*time.Millisecond
					g.StaleWhileRevalidate, g.StaleIfError = 50*time.Millisecond, 200*time.Millisecond
				})
				f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
					<-time.After(rand.N(40 * time.Millisecond))
					switch rand.IntN(12) {
					case 0:
						return failing(n, l)
					case 1:
						return missing(n, l)
					case 2:
						panic("broken loader")
					case 3:
						return saying(cache.Freshness{NoStore: true})(n, l)
					}
					return counting(n, l)
				})
				var clients sync.WaitGroup
				for c := range uint64(40) {
					clients.Go(func() { chaos(t.Context(), f, rand.New(rand.NewPCG(seed, c))) })
				}
				clients.Wait()
				s := f.Stats()
				for name, n := range map[string]uint64{
					"hits": s.Hits, "stale": s.Stale, "joined": s.Joined, "loads": s.Loads, "refused": s.Refused,
					"served hits": s.ServedHits, "served loads": s.ServedLoads, "refreshes": s.Refreshes, "stand-in": s.StandIn,
				} {
					if n == 0 {
						t.Errorf("no %s: the test tests less than it should", name)
					}
				}
			})
		})
	}
}

// chaos asks as a client does, and as another node does.
func chaos(ctx context.Context, f *fixture, dice *rand.Rand) {
	for range 200 {
		key := doc(fmt.Sprint(dice.IntN(30)))
		ctx, cancel := context.WithTimeout(ctx, time.Duration(1+dice.IntN(60))*time.Millisecond)
		if dice.IntN(5) == 0 {
			time.AfterFunc(time.Duration(dice.IntN(30))*time.Millisecond, cancel)
		}
		// Errors do not matter here: the test is about the books.
		switch n := dice.IntN(1000); {
		case n < 20:
			_ = f.removeCtx(ctx, cache.Request{Key: key})
		case n < 40:
			f.putCtx(ctx, cache.Request{Key: key, Value: make([]byte, dice.IntN(3000))})
		case n < 42:
			f.DropGroup(key.Group)
		case n < 46:
			f.actIn([]cache.Term{0, 1, 2, cache.Unowned}[dice.IntN(4)])
		case n < 300:
			g := f.serveCtx(ctx, cache.Request{Key: key, OnlyIfCached: dice.IntN(5) == 0})
			f.Delivered(g.Kind, dice.IntN(5) > 0)
		case n < 350:
			f.getTwice(ctx, key)
		case n < 380:
			f.putSlowly(ctx, key, time.Duration(dice.IntN(20))*time.Millisecond, dice.IntN(2) == 0)
		default:
			f.getCtx(ctx, key)
		}
		<-time.After(time.Duration(dice.IntN(10)) * time.Millisecond)
		cancel()
	}
}

// getTwice discards the first answer of a get, as a node does that acts no longer.
func (f *fixture) getTwice(ctx context.Context, key cache.Key) {
	g, err := f.Group(key.Group)
	if err != nil {
		f.t.Fatal(err)
	}
	r := g.Read(key.Key, false)
	r.Arrived()
	a, _ := r.Answer(ctx, f.currentTerm())
	r.Discard(a)
	a, _ = r.Answer(ctx, f.currentTerm())
	r.Answered(a)
}

// putSlowly lets time pass between the steps of a write.
func (f *fixture) putSlowly(ctx context.Context, key cache.Key, wait time.Duration, commit bool) {
	req := cache.Request{Op: cache.OpPut, Key: key, Value: []byte("slow")}
	if err := f.CheckWrite(&req); err != nil {
		f.t.Error(err)
		return
	}
	w, err := f.BeginWrite(ctx, &req, f.currentTerm())
	if err != nil {
		return
	}
	<-time.After(wait)
	if commit {
		_, _ = w.Commit(ctx)
		return
	}
	w.Abandon()
}
