package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/cluster"
	"kring/peers"
)

// of are n keys that a member owns.
func (s *single) of(member string, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprintf("key-%d", i); s.first.Ring.Get(key) == member {
			keys = append(keys, key)
		}
	}
	return keys
}

// answersAfter answers a get with a value, after a while.
func answersAfter(wait time.Duration, value func(key string) []byte) func(ctx context.Context, member string, req *peers.Request) (peers.Reply, error) {
	return func(ctx context.Context, _ string, req *peers.Request) (peers.Reply, error) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return peers.Reply{}, ctx.Err()
		}
		e := &cache.Entry{Value: value(req.Key.Key)}
		return peers.Reply{Answer: cache.Answer{Entry: e, Kind: cache.KindLoad, Node: "n1"}, Counted: true}, nil
	}
}

func itself(key string) []byte { return []byte(key) }

func TestGetManyIsOneGetForEachKeyInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		s.origin.answers(func(_ context.Context, l *cache.Load) (cache.Loaded, error) {
			<-time.After(time.Second)
			if strings.HasSuffix(l.Key.Key, "7") {
				return cache.Loaded{}, cache.ErrOriginFailed
			}
			return loaded([]byte(l.Key.Key)), nil
		})
		s.peers.call = answersAfter(time.Second, itself)
		keys := append([]string{""}, numbered("key-", 250)...)
		keys = append(keys, numbered("key-", 250)...)
		results := getMany(t.Context(), t, s.Cluster, "docs", keys, time.Minute)
		if !errors.Is(results[0].Err, cache.ErrBadKey) || results[0].Kind != cache.KindNone {
			t.Errorf("a key that cannot be: %+v", results[0])
		}
		for i, r := range results[1:] {
			key := keys[i+1]
			mine := s.first.Ring.Get(key) == "n0"
			switch {
			case mine && strings.HasSuffix(key, "7"):
				if !errors.Is(r.Err, cache.ErrOriginFailed) {
					t.Errorf("%s: %+v", key, r)
				}
			case r.Err != nil || string(r.Entry.Value) != key || (r.Kind == cache.KindPeer) == mine:
				t.Errorf("%s: %+v", key, r)
			case mine && s.origin.loads(key) != 1:
				t.Errorf("%s was loaded %d times", key, s.origin.loads(key))
			}
		}
		if n := s.Stats().Gets; n != 500 {
			t.Errorf("%d gets", n)
		}
	})
}

func TestGetManyOfNothingAndOfAnUnknownGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		for range s.GetMany(t.Context(), "docs", nil, time.Minute) {
			t.Error("a result of no key")
		}
		for _, r := range getMany(t.Context(), t, s.Cluster, "nope", numbered("k", 3*cluster.Window-1), time.Minute) {
			if !errors.Is(r.Err, cache.ErrUnknownGroup) || r.Node != "n0" {
				t.Errorf("%+v", r)
			}
		}
		for range s.GetMany(t.Context(), "nope", numbered("k", 3*cluster.Window), time.Minute) {
			break
		}
		if n := s.Stats().Gets; n != 0 {
			t.Errorf("%d gets", n)
		}
	})
}

func TestGetManyWithAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		s.peers.call = answersAfter(time.Second, itself)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		stored := s.of("n0", 3)[0]
		if _, err := s.Get(t.Context(), doc(stored), false); err != nil {
			t.Fatal(err)
		}
		for i, r := range getMany(ctx, t, s.Cluster, "docs", numbered("key-", 300), time.Minute) {
			if key := fmt.Sprint("key-", i); (r.Err == nil) != (key == stored) || r.Err != nil && !errors.Is(r.Err, context.Canceled) {
				t.Errorf("%s: %+v", key, r)
			}
		}
		// The end comes while gets wait.
		ctx, cancel = context.WithCancel(t.Context())
		defer s.origin.hang(s.of("n0", 50)...)()
		later(cancel)
		for _, r := range getMany(ctx, t, s.Cluster, "docs", s.of("n0", 50)[3:], time.Minute) {
			if !errors.Is(r.Err, context.Canceled) {
				t.Errorf("%+v", r)
			}
		}
	})
}

// held counts values that are in memory for a batch: from the answer to when the caller
// asks for the next ones.
type held struct{ now, most atomic.Int32 }

func (h *held) add(n int32) {
	if now := h.now.Add(n); now > h.most.Load() {
		h.most.Store(now)
	}
}

// Few large values are in memory at once, also while nobody knows that they are large.
func TestGetManyHoldsFewLargeValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		s := alone(t)
		var under, values held
		s.peers.call = func(_ context.Context, _ string, req *peers.Request) (peers.Reply, error) {
			under.add(1)
			defer under.add(-1)
			values.add(1)
			<-time.After(time.Millisecond)
			e := &cache.Entry{Value: append(make([]byte, size), req.Key.Key...)}
			return peers.Reply{Answer: cache.Answer{Entry: e, Kind: cache.KindHit, Node: "n1"}, Counted: true}, nil
		}
		keys := s.of("n1", 200)
		for at, results := range s.GetMany(t.Context(), "docs", keys, time.Minute) {
			for i, r := range results {
				if got := string(r.Entry.Value[size:]); got != keys[at+i] {
					t.Errorf("key %s has the value of %s", keys[at+i], got)
				}
			}
			<-time.After(10 * time.Millisecond) // the gets that have begun end meanwhile
			values.add(-int32(len(results)))
		}
		if b := s.Stats(); b.Gets != 200 || b.Peer != 200 || len(s.peers.calls()) != 200 {
			t.Errorf("%d calls; %+v", len(s.peers.calls()), b.Reads)
		}
		// Four of unknown size may begin together.
		if under.most.Load() > 4 || values.most.Load() > 4 || values.now.Load() != 0 {
			t.Errorf("%d calls at once, %d values of 1 MiB", under.most.Load(), values.most.Load())
		}
	})
}

// A few small values make room for many gets. When the values of these are large, few
// gets begin again.
func TestGetManyLearnsThatValuesAreLargeAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		keys := s.of("n1", 128)
		var under held
		var call atomic.Int32
		last := int32(0)
		s.peers.call = func(_ context.Context, _ string, req *peers.Request) (peers.Reply, error) {
			under.add(1)
			defer under.add(-1)
			if req.Key.Key == keys[127] {
				last = under.now.Load()
			}
			n := call.Add(1)
			<-time.After(time.Duration(n) * time.Millisecond) // one after the other
			e := &cache.Entry{Value: []byte("small")}
			if n > 4 {
				e.Value = make([]byte, 1<<20)
			}
			return peers.Reply{Answer: cache.Answer{Entry: e, Kind: cache.KindHit, Node: "n1"}, Counted: true}, nil
		}
		getMany(t.Context(), t, s.Cluster, "docs", keys, time.Minute)
		if most := under.most.Load(); most < 30 || most > 68 || last > 4 {
			t.Errorf("%d gets at once, %d when the last one began", most, last)
		}
	})
}

// Large values that are stored here are yielded a few at a time, too: the cache may
// evict what the caller holds.
func TestGetManyYieldsFewLargeStoredValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		s := alone(t)
		keys := s.of("n0", 40)
		for _, key := range keys {
			if _, err := s.Put(t.Context(), &cache.Request{Key: kv(key), Value: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
		yields := 0
		for at, results := range s.GetMany(t.Context(), "kv", keys, time.Minute) {
			yields++
			if n := len(results); n > cluster.ManyBytes/size+2 {
				t.Errorf("%d values of 1 MiB at once, from %d", n, at)
			}
			for _, r := range results {
				if len(r.Entry.Value) != size || r.Kind != cache.KindHit {
					t.Errorf("%+v", r.Answer)
				}
			}
		}
		if b := s.Stats(); b.Gets != 40 || b.Hits != 40 || yields < 10 {
			t.Errorf("%d gets, %d hits, %d yields", b.Gets, b.Hits, yields)
		}
	})
}

// Small values are waited for together as soon as one has shown that they are small.
func TestGetManyWaitsForManySmallValuesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		s.peers.call = answersAfter(time.Second, itself)
		began := time.Now()
		for i, r := range getMany(t.Context(), t, s.Cluster, "docs", s.of("n1", 68), time.Minute) {
			if r.Err != nil {
				t.Errorf("key %d: %+v", i, r)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("4 keys, then 64, took %v", took)
		}
	})
}

// Small values that have come make room for others, also while the first one is waited
// for.
func TestGetManyGoesOnBehindAKeyThatTakesLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		keys := s.of("n1", 50)
		longer, others := answersAfter(1500*time.Millisecond, itself), answersAfter(time.Second, itself)
		s.peers.call = func(ctx context.Context, member string, req *peers.Request) (peers.Reply, error) {
			if req.Key.Key == keys[0] {
				return longer(ctx, member, req)
			}
			return others(ctx, member, req)
		}
		began := time.Now()
		getMany(t.Context(), t, s.Cluster, "docs", keys, time.Minute)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("4 keys, then 46, took %v", took)
		}
	})
}

// Slow loads are begun though none before has shown its size: a few that hang do not
// use up the time of all.
func TestGetManyDoesNotWaitForSlowLoadsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		keys := s.of("n1", 20)
		slow, never := answersAfter(20*time.Second, itself), answersAfter(time.Hour, itself)
		s.peers.call = func(ctx context.Context, member string, req *peers.Request) (peers.Reply, error) {
			for _, key := range keys[:4] {
				if key == req.Key.Key {
					return never(ctx, member, req)
				}
			}
			return slow(ctx, member, req)
		}
		began := time.Now()
		for i, r := range getMany(t.Context(), t, s.Cluster, "docs", keys, 30*time.Second) {
			if hangs := i < 4; (r.Err != nil) != hangs || hangs && !errors.Is(r.Err, cache.ErrOriginTimeout) {
				t.Errorf("key %d: %+v", i, r)
			}
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %v", took)
		}
		if b := s.Stats(); b.Gets != 20 || b.Peer != 20 || b.Abandoned != 4 {
			t.Errorf("%+v, abandoned %d", b.Reads, b.Abandoned)
		}
	})
}

// All gets together take no longer than their time. The caller may take any time
// between.
func TestGetManyTakesNoLongerThanItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		keys := s.of("n1", 4*cluster.Window)
		failed := func(wait, within, between time.Duration) (failed int) {
			t.Helper()
			s.peers.call = answersAfter(wait, itself)
			var spent time.Duration
			began := time.Now()
			for _, results := range s.GetMany(t.Context(), "docs", keys, within) {
				for _, r := range results {
					if r.Err != nil {
						failed++
					}
				}
				<-time.After(between)
				spent += between
			}
			if took := time.Since(began) - spent; took > within {
				t.Errorf("the gets took %v of %v", took, within)
			}
			return failed
		}
		if n := failed(time.Second, time.Minute, time.Minute); n != 0 {
			t.Errorf("%d of a second failed, of a caller that was slow", n)
		}
		// A window takes 3 s at most: the first four gets, 64, and the rest.
		if n := failed(time.Second, 4*time.Second, 0); n == 0 || n > 3*cluster.Window {
			t.Errorf("%d failed in the time of a window", n)
		}
		if n := failed(time.Second, 0, 0); n != len(keys) {
			t.Errorf("%d failed without time", n)
		}
	})
}

// A caller that wants no more leaves nothing behind, and does not wait for what hangs.
func TestGetManyEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		keys := s.of("n1", 300)
		var under held
		s.peers.call = func(ctx context.Context, _ string, req *peers.Request) (peers.Reply, error) {
			under.add(1)
			defer under.add(-1)
			if req.Key.Key == keys[0] {
				<-time.After(time.Millisecond) // the others wait by then
				return peers.Reply{Answer: cache.Answer{Entry: &cache.Entry{}, Kind: cache.KindHit, Node: "n1"}, Counted: true}, nil
			}
			<-ctx.Done()
			return peers.Reply{}, ctx.Err()
		}
		within(t, time.Millisecond, "the batch", func() error {
			for at, results := range s.GetMany(t.Context(), "docs", keys, time.Minute) {
				if at != 0 || len(results) != 1 {
					t.Errorf("%d results from %d", len(results), at)
				}
				break
			}
			return nil
		})
		if under.now.Load() != 0 || under.most.Load() < 2 {
			t.Errorf("%d calls are left of %d", under.now.Load(), under.most.Load())
		}
		// A caller that panics is one that wants no more.
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			for range s.GetMany(t.Context(), "docs", keys, time.Minute) {
				panic("told to")
			}
		}()
		if under.now.Load() != 0 {
			t.Errorf("%d calls are left after a panic", under.now.Load())
		}
	})
}

// The first key is to be loaded, and the values of the next ones fill the memory of the
// batch.
func TestGetManyOfAMissingKeyBeforeLargeStoredOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t, func(o *cache.Options) { o.Config.MaxValueBytes = 4 << 20 })
		keys := s.of("n0", 12)
		for i, key := range keys {
			if i%4 == 0 {
				continue
			}
			if _, err := s.Put(t.Context(), &cache.Request{Key: doc(key), Value: make([]byte, 3<<20), TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range getMany(t.Context(), t, s.Cluster, "docs", keys, time.Minute) {
			want := cache.KindHit
			if i%4 == 0 {
				want = cache.KindLoad
			}
			if r.Err != nil || r.Kind != want {
				t.Errorf("key %d: %+v", i, r)
			}
		}
	})
}

func TestManyGetsAreOneCallToEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3, func(_ int, o *options) { o.docs().KeyPattern = "[a-z]+-?[0-9]*" })
		n, keys := c.nodes[0], numbered("key-", 100)
		for _, key := range keys {
			if _, err := c.get(t.Context(), 1, key); err != nil {
				t.Fatal(err)
			}
		}
		keys = append(keys, numbered("no-", 20)...)
		keys = append(keys, "\n", "NONE")
		calls := func() (sum uint64) {
			for _, p := range n.peers.Stats().Peers {
				sum += p.Calls
			}
			return sum
		}
		before, missed := calls(), uint64(0)
		results := getMany(t.Context(), t, n.Cluster, "docs", keys, time.Minute)
		for i, r := range results[:120] {
			owner, want := n.RouteOf(keys[i]).Node, cache.KindHit
			if i >= 100 {
				want = cache.KindLoad
				if owner != n.id {
					missed++
				}
			}
			if r.Err != nil || r.Node != owner || string(r.Entry.Value) != keys[i]+"#1" || r.OwnerKind != want || (owner != n.id) != (r.Kind == cache.KindPeer) {
				t.Errorf("%s of %s: %+v", keys[i], owner, r)
			}
		}
		if !errors.Is(results[120].Err, cache.ErrBadKey) {
			t.Errorf("a key that cannot be: %+v", results[120])
		}
		if r := results[121]; r.Err != nil || !r.Entry.Negative || r.Node != n.id || r.Kind != cache.KindHit {
			t.Errorf("no key of the group: %+v", r)
		}
		if n := calls() - before; n != 2+missed {
			t.Errorf("%d calls for two nodes and %d keys that they had not stored", n, missed)
		}
	})
}

// Keys that fill more than a frame make more calls. The results are whole and in order.
func TestManyGetsOfLongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2, func(_ int, o *options) { o.cache.Config.MaxKeyBytes = 8 << 10 })
		n, keys := c.nodes[0], numbered(strings.Repeat("k", 4<<10), 100)
		theirs := 0
		for _, key := range keys {
			if _, err := n.Put(t.Context(), &cache.Request{Key: kv(key), Value: []byte(key)}); err != nil {
				t.Fatal(err)
			}
			if n.RouteOf(key).Node == "n1" {
				theirs++
			}
		}
		before := n.peers.Stats().Peers[0].Calls
		for i, r := range getMany(t.Context(), t, n.Cluster, "kv", keys, time.Minute) {
			if r.Err != nil || string(r.Entry.Value) != keys[i] {
				t.Errorf("key %d: %v", i, r.Err)
			}
		}
		if calls, most := n.peers.Stats().Peers[0].Calls-before, uint64(1+theirs/15); calls < 2 || calls > most {
			t.Errorf("%d calls for %d keys", calls, theirs)
		}
	})
}

// A key that no frame has room for does not keep the others of a batch from their call.
func TestAKeyThatCannotBeLeavesABatchWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2, func(_ int, o *options) { o.docs().KeyPattern = "k.*" })
		long, other := "", "" // too long, and none of the group's
		for i := 0; long == "" || c.nodes[0].RouteOf(long).Node != "n1"; i++ {
			long = strings.Repeat(fmt.Sprint("k", i), 1<<18)
		}
		for i := 0; other == "" || c.nodes[0].RouteOf(other).Node != "n1"; i++ {
			other = fmt.Sprint("x", i)
		}
		good := []string{c.key(0, 1), c.key(1, 1)}
		for _, key := range good {
			if _, err := c.get(t.Context(), 0, key); err != nil {
				t.Fatal(err)
			}
		}
		before := c.nodes[0].peers.Stats().Peers[0].Calls
		results := getMany(t.Context(), t, c.nodes[0].Cluster, "docs", append([]string{long, other}, good...), time.Minute)
		if n := c.nodes[0].peers.Stats().Peers[0].Calls - before; n != 1 || results[2].Err != nil || results[3].Err != nil {
			t.Errorf("%d calls: %+v", n, results[2:])
		}
		if r := results[1]; !errors.Is(results[0].Err, cache.ErrKeyTooLong) || r.Err != nil || !r.Entry.Negative || r.Node != "n0" {
			t.Errorf("%v, %+v", results[0].Err, r)
		}
	})
}

// Values that have no room in the frame of a batch come by a call each.
func TestManyGetsOfValuesOfAllSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		for _, size := range []int{10, 9 << 10, 90 << 10, 1 << 20} {
			value := bytes.Repeat([]byte("v"), size)
			var keys []string
			for i := range 40 {
				keys = append(keys, c.key(i, 1))
				if _, err := c.nodes[1].Put(t.Context(), &cache.Request{Key: kv(keys[i]), Value: value}); err != nil {
					t.Fatal(err)
				}
			}
			for i, r := range getMany(t.Context(), t, c.nodes[0].Cluster, "kv", keys, time.Minute) {
				if r.Err != nil || !bytes.Equal(r.Entry.Value, value) || r.Node != "n1" || r.OwnerKind != cache.KindHit {
					t.Errorf("%d bytes: %s: %v", size, keys[i], r.Err)
				}
			}
		}
	})
}

// The books have each key of a batch once, at the node that answered it, also when the
// answer comes too late, or not at all.
func TestBooksOfManyGets(t *testing.T) {
	for name, trouble := range map[string]func(c *harness, cancel func()){
		"the caller leaves": func(c *harness, cancel func()) {
			c.net.Hold("n1:1", "n0:1")
			time.AfterFunc(20*time.Millisecond, cancel)
			time.AfterFunc(100*time.Millisecond, func() { c.net.Release("n1:1", "n0:1") })
		},
		"the owner is silent": func(c *harness, _ func()) {
			time.AfterFunc(4*time.Second, c.hold(1))
		},
		"the answer is lost": func(c *harness, _ func()) {
			c.net.Hold("n1:1", "n0:1")
			time.AfterFunc(50*time.Millisecond, func() {
				c.net.Break("n0:1", "n1:1")
				c.net.Release("n1:1", "n0:1")
			})
		},
		"the owner dies": func(c *harness, _ func()) {
			c.net.Hold("n0:1", "n1:1")
			time.AfterFunc(50*time.Millisecond, func() { c.kill(1) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, 3)
				keys := numbered("key-", 60)
				for _, key := range keys {
					if _, err := c.get(t.Context(), 2, key); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				trouble(c, cancel)
				var callers sync.WaitGroup
				for range 3 {
					callers.Go(func() {
						for i, r := range getMany(ctx, t, c.nodes[0].Cluster, "docs", keys, time.Minute) {
							if ctx.Err() == nil && (r.Err != nil || !strings.HasPrefix(string(r.Entry.Value), keys[i]+"#")) {
								t.Errorf("%s: %+v", keys[i], r)
							}
						}
					})
				}
				callers.Wait()
				<-time.After(10 * time.Second)
				c.checkBooks()
				if s := c.nodes[0].Stats(); s.Gets != 180 {
					t.Errorf("%d gets", s.Gets)
				}
			})
		})
	}
}

// room is a peers.Room without a limit, which knows what is charged.
type room struct {
	mu    sync.Mutex
	bytes map[*cache.Entry]int
}

func (r *room) Take(e *cache.Entry, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes[e] = n
	return true
}

func (r *room) Wait(_ context.Context, e *cache.Entry, n int) error { r.Take(e, n); return nil }

func (r *room) Give(e *cache.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.bytes, e)
}

func (r *room) charged(e *cache.Entry) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes[e]
}

// A value of another node is charged until the caller asks for the next results.
func TestValuesOfABatchAreChargedUntilTheyAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{bytes: map[*cache.Entry]int{}}
		c := start(t, 2, func(i int, o *options) {
			if i == 0 {
				o.peers.Room = r
			}
		})
		var keys []string
		for i := range 20 {
			keys = append(keys, c.key(i, 1))
			if _, err := c.nodes[1].Put(t.Context(), &cache.Request{Key: kv(keys[i]), Value: make([]byte, 1<<20)}); err != nil {
				t.Fatal(err)
			}
		}
		for at, results := range c.nodes[0].GetMany(t.Context(), "kv", keys, time.Minute) {
			synctest.Wait()
			sum := 0
			r.mu.Lock()
			for _, n := range r.bytes {
				sum += n
			}
			r.mu.Unlock()
			if sum > cluster.ManyBytes+3<<20 {
				t.Errorf("%d bytes are charged at once", sum)
			}
			for i := range results {
				if n := r.charged(results[i].Entry); n != 1<<20 {
					t.Errorf("%d bytes are charged for key %d", n, at+i)
				}
			}
		}
		synctest.Wait()
		if len(r.bytes) != 0 {
			t.Errorf("%d values are charged in the end", len(r.bytes))
		}
	})
}
