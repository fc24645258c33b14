package cache_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

// times notes when an origin was asked.
type times struct {
	mu sync.Mutex // guards at
	at []time.Time
}

func (r *times) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, time.Now())
}

// peak is the largest number of requests within any stretch of that length.
func (r *times) peak(within time.Duration) (most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.at, time.Time.Compare)
	first := 0
	for i, t := range r.at {
		for t.Sub(r.at[first]) >= within {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Avalanche: 10,000 keys that were loaded together are not loaded again together. The
// default jitter spreads them over a tenth of the TTL: in no 100 ms does the origin see
// more than three times the mean. No get waits, because the old value is served meanwhile.
func TestAvalanche(t *testing.T) {
	const keys, ttl, spread = 10000, 60 * second, 6 * second
	synctest.Test(t, func(t *testing.T) {
		var asked times
		jitter := cache.DefaultGroupConfig("docs").Jitter
		f := setup(t, group(func(g *cache.GroupConfig) { g.TTL, g.Jitter = ttl, jitter }))
		names := make([]cache.Key, keys)
		for i := range names {
			names[i] = doc(fmt.Sprint("k", i))
			f.get(names[i])
		}
		f.origin.set(20*time.Millisecond, func(n int, l *cache.Load) (cache.Loaded, error) {
			asked.note()
			return counting(n, l)
		})
		pass(ttl - spread - second)
		const step, every = 10 * time.Millisecond, 500 * time.Millisecond // each key is asked for twice a second
		for at := 0; at < int(8*second/step); at++ {
			began := time.Now()
			for i := range int(keys * step / every) {
				g := f.get(names[(at*int(keys*step/every)+i)%keys])
				if g.err != nil || g.Kind != cache.KindHit && g.Kind != cache.KindStale {
					t.Fatalf("kind %v, %v", g.Kind, g.err)
				}
			}
			if waited := time.Since(began); waited != 0 {
				t.Fatalf("a get waited %v", waited)
			}
			pass(step)
		}
		if n := len(asked.at); n != keys {
			t.Errorf("%d loads for %d keys", n, keys)
		}
		const mean = int(keys * 100 * time.Millisecond / spread)
		if peak := asked.peak(100 * time.Millisecond); peak > 3*mean {
			t.Errorf("%d loads within 100 ms, the mean is %d", peak, mean)
		}
	})
}

// Breakdown: a key that is asked for 5,000 times a second expires. It is loaded once.
// Where stale values may be served, no get waits. Otherwise the gets that come during the
// load wait for it, and not longer than it takes.
func TestBreakdown(t *testing.T) {
	const latency = 300 * time.Millisecond
	for _, tt := range []struct {
		name  string
		stale time.Duration
		waits time.Duration // the longest
	}{{"stale allowed", 5 * second, 0}, {"no stale values", 0, latency}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(func(g *cache.GroupConfig) {
					g.TTL, g.StaleWhileRevalidate, g.StaleIfError = 10*second, tt.stale, tt.stale
				}))
				f.get(doc("hot"))
				f.origin.set(latency, counting)
				pass(9500 * time.Millisecond)
				var mu sync.Mutex // guards longest
				var longest time.Duration
				var clients sync.WaitGroup
				for range 5000 {
					clients.Go(func() {
						began := time.Now()
						if g := f.get(doc("hot")); g.err != nil {
							t.Error(g.err)
						}
						mu.Lock()
						defer mu.Unlock()
						longest = max(longest, time.Since(began))
					})
					pass(200 * time.Microsecond)
				}
				clients.Wait()
				pass(latency)
				if longest != tt.waits {
					t.Errorf("the longest wait was %v, want %v", longest, tt.waits)
				}
				if n := f.origin.loads("hot"); n != 2 {
					t.Errorf("%d loads, want the first and one more", n)
				}
			})
		})
	}
}

// Penetration: 100,000 random keys that do not exist evict no key that does. The origin
// sees no more of them than new_key_rate, and they take no more memory than the share of
// negative entries.
func TestPenetration(t *testing.T) {
	const hot, rate, wanted = 500, 500, 100_000
	synctest.Test(t, func(t *testing.T) {
		var asked times
		f := setup(t, func(o *cache.Options) { o.Config.MaxBytes = 4 << 20 }, group(func(g *cache.GroupConfig) { g.NewKeyRate = rate }))
		for i := range hot {
			f.get(doc(fmt.Sprint("hot", i)))
		}
		held := f.Stats()
		pass(second)
		f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
			asked.note()
			return missing(n, l)
		})
		began := time.Now()
		hits := 0
		for i := range wanted {
			g := f.get(doc(fmt.Sprint("missing", rand.Uint64())))
			if g.err != nil {
				f.wantsError(g, cache.ErrOverloaded, cache.KindRefused)
			} else if !g.Entry.Negative {
				t.Fatalf("%+v", g)
			}
			if f.get(doc(fmt.Sprint("hot", i%hot))).Kind == cache.KindHit {
				hits++
			}
			if i%100 == 99 { // 10,000 a second
				<-time.After(10 * time.Millisecond)
			}
		}
		if hits < wanted*99/100 {
			t.Errorf("%d of %d gets of the hot set were hits", hits, wanted)
		}
		if most := rate * (1 + time.Since(began).Seconds()); float64(len(asked.at)) > most || len(asked.at) < rate {
			t.Errorf("%d loads in %v at %d a second", len(asked.at), time.Since(began), rate)
		}
		if peak := asked.peak(second); peak > 2*rate { // one second's loads, and one second's that were saved up
			t.Errorf("%d loads in one second", peak)
		}
		s := f.Stats()
		if share := int64(float64(s.MaxBytes) * cache.DefaultConfig().NegativeShare); s.Bytes-held.Bytes > share {
			t.Errorf("missing keys take %d bytes, their share is %d", s.Bytes-held.Bytes, share)
		}
		if s.Evictions == 0 {
			t.Error("their share was never full: the test asks for too few")
		}
	})
}

// A fresh key is loaded once, also if a get comes just as a load ends: a get that found
// nothing looks again before it starts a load.
func TestOneLoadForEachKeyWhenManyGetsComeAtTheSameTime(t *testing.T) {
	const keys, readers = 20_000, 8
	f := setup(t, group(func(g *cache.GroupConfig) { g.TTL = time.Hour }))
	var wg sync.WaitGroup
	var at atomic.Int64 // all readers are at about the same key
	for range readers {
		wg.Go(func() {
			for i := at.Load(); i < keys; i = at.Load() {
				if g := f.get(doc(strconv.FormatInt(i, 10))); g.err != nil {
					t.Error(g.err)
				}
				at.CompareAndSwap(i, i+1)
			}
		})
	}
	wg.Wait()
	if n := f.origin.total(); n != keys {
		t.Errorf("%d loads of %d keys", n, keys)
	}
}
