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

// Whatever happens at once, the books balance with what the origin saw.
func TestBooksAfterChaos(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &router{self: true, forward: nobody}
				f := setup(t, routed(r), func(o *cache.Options) {
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
					clients.Go(func() { chaos(t.Context(), f, r, rand.New(rand.NewPCG(seed, c))) })
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

// chaos is one client, or another node.
func chaos(ctx context.Context, f *fixture, r *router, dice *rand.Rand) {
	for range 200 {
		key := doc(fmt.Sprint(dice.IntN(30)))
		ctx, cancel := context.WithTimeout(ctx, time.Duration(1+dice.IntN(60))*time.Millisecond)
		if dice.IntN(5) == 0 {
			time.AfterFunc(time.Duration(dice.IntN(30))*time.Millisecond, cancel)
		}
		// Any error will do: it is the books that are tested.
		switch n := dice.IntN(1000); {
		case n < 20:
			_ = f.Delete(ctx, key)
		case n < 40:
			_, _ = f.Put(ctx, &cache.Request{Key: key, Value: make([]byte, dice.IntN(3000))})
		case n < 42:
			f.DropGroup(key.Group)
		case n < 46:
			r.acts(dice.Uint64N(3), dice.IntN(4) > 0)
		case n < 300:
			a, _ := f.Serve(ctx, &cache.Request{Op: cache.OpGet, Key: key, OnlyIfCached: dice.IntN(5) == 0})
			f.Settle(a.Kind, dice.IntN(5) > 0)
		case n < 350:
			f.GetMany(ctx, key.Group, []string{key.Key, "0", "1", ""}, nil)
		default:
			f.getCtx(ctx, key)
		}
		<-time.After(time.Duration(dice.IntN(10)) * time.Millisecond)
		cancel()
	}
}
