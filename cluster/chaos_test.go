package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/membership"
	"kring/peers"
)

// The view changes all the time, and other nodes answer in all ways. The books balance
// with the requests that the origin saw: alone checks that.
func TestBooksWhileTheViewChanges(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := alone(t, func(o *cache.Options) {
					o.MaxWaiters = 30
					g := &o.Groups[0]
					g.TTL, g.Jitter, g.RefreshAhead = 100*time.Millisecond, 0.5, 0.3
					g.StaleWhileRevalidate, g.StaleIfError = 50*time.Millisecond, 200*time.Millisecond
				})
				broken := noAnswer(t)
				var views []*membership.View
				for heavy := range 3 {
					views = append(views, view(t, uint64(heavy+1), heavy))
				}
				s.origin.answers(func(_ context.Context, l *cache.Load) (cache.Loaded, error) {
					<-time.After(rand.N(40 * time.Millisecond))
					switch rand.IntN(8) {
					case 0:
						return cache.Loaded{}, cache.ErrOriginFailed
					case 1:
						panic("told to")
					}
					return loaded([]byte(l.Key.Key)), nil
				})
				s.peers.call = func(ctx context.Context, member string, _ *peers.Request) (peers.Reply, error) {
					select {
					case <-time.After(rand.N(20 * time.Millisecond)):
					case <-ctx.Done():
						return peers.Reply{}, ctx.Err()
					}
					a := cache.Answer{Kind: cache.KindHit, Node: member, Entry: &cache.Entry{}}
					switch rand.IntN(8) {
					case 0:
						return peers.Reply{NotOwner: true}, nil
					case 1:
						return peers.Reply{}, broken
					case 2:
						return peers.Reply{Answer: a, Shared: true}, nil
					case 3:
						return peers.Reply{}, peers.ErrAskAgain
					case 4:
						return peers.Reply{}, &peers.RefusedHere{Err: cache.ErrOverloaded}
					}
					return peers.Reply{Answer: a, Counted: true}, nil
				}
				var clients sync.WaitGroup
				for c := range uint64(40) {
					clients.Go(func() { chaos(t.Context(), s, views, rand.New(rand.NewPCG(seed, c))) })
				}
				clients.Wait()
				b := s.Stats()
				for name, n := range map[string]uint64{
					"hits": b.Hits, "joined": b.Joined, "loads": b.Loads, "refused": b.Refused, "peer": b.Peer, "served hits": b.ServedHits,
					"served loads": b.ServedLoads, "refreshes": b.Refreshes, "not owner": b.NotOwner, "passed on": b.PassedOn,
				} {
					if n == 0 {
						t.Errorf("no %s: the test tests less than it should", name)
					}
				}
			})
		})
	}
}

// chaos is one client, or another node. Any error will do: the books are tested.
func chaos(ctx context.Context, s *single, views []*membership.View, dice *rand.Rand) {
	for range 100 {
		key := doc(fmt.Sprint(dice.IntN(60)))
		ctx, cancel := context.WithTimeout(ctx, time.Duration(1+dice.IntN(60))*time.Millisecond)
		switch n := dice.IntN(100); {
		case n < 4:
			_ = s.Delete(ctx, key)
		case n < 8:
			_, _ = s.Put(ctx, &cache.Request{Key: key, Value: []byte("v")})
		case n < 16:
			s.peers.sees(views[dice.IntN(len(views))])
		case n < 40:
			in := inbound(cache.OpGet, key)
			in.View, in.OnlyIfCached = s.peers.View().Number, dice.IntN(5) == 0
			if r := s.Answer(ctx, in); r.Counted && !r.PassedOn {
				s.Delivered(r.Answer.Kind, dice.IntN(5) > 0)
			}
		case n < 46:
			for range s.GetMany(ctx, "docs", []string{key.Key, "0", "1", ""}, time.Second) {
				if dice.IntN(3) == 0 {
					break
				}
			}
		default:
			_, _ = s.Get(ctx, key, false)
		}
		<-time.After(time.Duration(dice.IntN(10)) * time.Millisecond)
		cancel()
	}
}
