package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

// othersPass checks that requests of all kinds from one node to another are
// answered at once, also while others wait on their link.
func (c *harness) othersPass(from, to int) {
	c.t.Helper()
	key := c.key(900, to)
	n := c.nodes[from]
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	get := func() error { _, err := n.Get(ctx, doc(key), false); return err }
	within(c.t, quick, "a miss", get)
	within(c.t, quick, "a hit", get)
	within(c.t, quick, "a put", func() error {
		_, err := n.Put(ctx, &cache.Request{Key: kv(key), Value: []byte("v")})
		return err
	})
	within(c.t, quick, "a delete", func() error { return n.Delete(ctx, kv(key)) })
	within(c.t, quick, "a get of what is stored alone", func() error {
		_, err := n.Get(ctx, doc(c.key(901, to)), true)
		if errors.Is(err, cache.ErrNotCached) {
			return nil
		}
		return fmt.Errorf("got %w", err)
	})
	within(c.t, quick, "a batch", func() error {
		for _, r := range getMany(ctx, c.t, n.Cluster, "docs", []string{key, c.key(902, to), key}, time.Minute) {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
}

func (c *harness) purgePasses(from int) {
	c.t.Helper()
	within(c.t, quick, "a purge", func() error { return c.nodes[from].Purge(c.t.Context(), "kv") })
}

func TestGetsOfOneKeyThatWaitShareOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(0, 1)
		release := c.origin.hang(key)
		defer release()
		early := c.crowd(t.Context(), 0, times(1100, key)...)
		c.othersPass(0, 1)
		late := c.crowd(t.Context(), 0, times(400, key)...)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var batches sync.WaitGroup
		for range 300 {
			batches.Go(func() {
				for _, r := range getMany(ctx, t, c.nodes[0].Cluster, "docs", times(50, key), 5*time.Minute) {
					if r.Err != nil && !errors.Is(r.Err, cache.ErrOverloaded) {
						t.Error("in a batch:", r.Err)
					}
				}
			})
		}
		synctest.Wait()
		c.othersPass(0, 1)
		c.purgePasses(0)
		if n := c.inFlight(0, 1); n != 1 {
			t.Errorf("%d calls are under way, want one", n)
		}
		release()
		shared := 0
		for value, answers := range map[string][]outcome{"early": early()[key+"#1"], "late": late()[key+"#1"]} {
			want := map[string]int{"early": 1100, "late": 400}[value]
			if len(answers) != want {
				t.Errorf("%d of the %s ones were answered with the load's value, want %d", len(answers), value, want)
			}
			for _, a := range answers {
				if a.Kind == cache.KindJoined {
					shared++
				}
				if a.Node != "n1" || a.Status != 200 || !a.Stored {
					t.Fatalf("%+v", a.Answer)
				}
			}
		}
		batches.Wait()
		if shared != 1499 {
			t.Errorf("%d gets of 1500 took the answer of another's call, want all but one", shared)
		}
		here, there := c.nodes[0].Stats(), c.nodes[1].Stats()
		if here.Joined < 1499 || there.ServedLoads < 1 || there.ServedJoined != 0 || c.origin.loads(key) != 1 {
			t.Errorf("joined %d here; there served %d by a load, %d joined; %d loads", here.Joined, there.ServedLoads, there.ServedJoined, c.origin.loads(key))
		}
	})
}

// There are many more slow keys than a link has slots. No other request waits.
func TestSlowKeysTakeNobodysPlaceOnALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		var keys []string
		for i := 0; len(keys) < 3000; i++ {
			if key := fmt.Sprint("slow-", i); c.nodes[0].peers.View().Ring.Get(key) == "n1" {
				keys = append(keys, key)
			}
		}
		release := c.origin.hang(keys...)
		defer release()
		answers := c.crowd(t.Context(), 0, keys...)
		c.othersPass(0, 1)
		<-time.After(10 * time.Second)
		c.othersPass(0, 1)
		c.purgePasses(0)
		if n := c.inFlight(0, 1); n != len(keys) {
			t.Errorf("%d calls are under way, want %d", n, len(keys))
		}
		release()
		if by := answers(); len(by) != len(keys) {
			t.Errorf("%d different answers to %d keys", len(by), len(keys))
		}
	})
}

func TestWaitersAreCappedWhereTheClientAsks(t *testing.T) {
	for name, test := range map[string]struct {
		max, perKey int
		want        int // how many of ten gets of a key wait
	}{
		"all":         {max: 7, want: 7},
		"of one key":  {max: 100, perKey: 4, want: 4},
		"exactly ten": {max: 10, want: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, 2, func(i int, o *options) {
					if i == 0 {
						o.cache.MaxWaiters, o.cache.MaxWaitersPerKey = test.max, test.perKey
					}
				})
				key := c.key(0, 1)
				for round := range 2 { // the first round gives back its places
					release := c.origin.hang(key)
					answers := c.crowd(t.Context(), 0, times(10, key)...)
					within(t, time.Millisecond, "a hit while all places are taken", func() error {
						_, err := c.nodes[0].Get(t.Context(), doc(c.key(5, 1)), true)
						if errors.Is(err, cache.ErrNotCached) {
							return nil
						}
						return fmt.Errorf("got %w", err)
					})
					release()
					waited, refused := 0, 0
					for _, all := range answers() {
						for _, a := range all {
							switch {
							case a.err == nil:
								waited++
							case errors.Is(a.err, cache.ErrOverloaded) && a.Kind == cache.KindRefused && a.Node == "n0":
								refused++
							default:
								t.Errorf("%+v, %v", a.Answer, a.err)
							}
						}
					}
					if waited != test.want || refused != 10-test.want {
						t.Errorf("round %d: %d waited and %d were refused, want %d and %d", round, waited, refused, test.want, 10-test.want)
					}
					if err := c.nodes[0].Delete(t.Context(), doc(key)); err != nil {
						t.Error(err)
					}
				}
				if s := c.nodes[0].Stats(); s.Refused != uint64(2*(10-test.want)) {
					t.Errorf("%d refused in the books", s.Refused)
				}
			})
		})
	}
}

// A get that begins after a write was acknowledged never takes the answer of an older
// call, whichever node took the write.
func TestAGetAfterAWriteSharesNoOlderCall(t *testing.T) {
	for _, writer := range []int{0, 1, 2} {
		for name, test := range map[string]struct {
			write func(n *node, key cache.Key) error
			want  func(key string) string
		}{
			"put": {func(n *node, key cache.Key) error {
				_, err := n.Put(context.Background(), &cache.Request{Key: key, Value: []byte("put")})
				return err
			}, func(string) string { return "put" }},
			"delete": {func(n *node, key cache.Key) error {
				return n.Delete(context.Background(), key)
			}, func(key string) string { return key + "#2" }},
			"purge": {func(n *node, _ cache.Key) error {
				return n.Purge(context.Background(), "docs")
			}, func(key string) string { return key + "#2" }},
			"purge by tag": {func(n *node, _ cache.Key) error {
				return n.PurgeTags(context.Background(), "docs", []string{"t"})
			}, func(key string) string { return key + "#2" }},
		} {
			t.Run(fmt.Sprintf("%s through n%d", name, writer), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := start(t, 3)
					key := c.key(0, 1)
					first := c.origin.hang(key)
					defer first()
					before := c.crowd(t.Context(), 0, times(20, key)...)
					if err := test.write(c.nodes[writer], doc(key)); err != nil {
						t.Fatal(err)
					}
					second := c.origin.hang(key) // the requests from now on hang by themselves
					defer second()
					after := c.crowd(t.Context(), 0, times(20, key)...)
					first()
					if n := len(before()[key+"#1"]); n != 20 {
						t.Errorf("%d of 20 that had asked before were answered by the load that ran then", n)
					}
					second()
					if by := after(); len(by[test.want(key)]) != 20 {
						t.Errorf("20 gets after the write: %d kinds of answers, %d with %q", len(by), len(by[test.want(key)]), test.want(key))
					}
				})
			})
		}
	}
}

// A put is read at once through the node at which gets of an older load wait.
func TestAPutIsReadWhileAnOlderLoadHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(0, 1)
		release := c.origin.hang(key)
		defer release()
		answers := c.crowd(t.Context(), 0, times(50, key)...)
		if _, err := c.nodes[0].Put(t.Context(), &cache.Request{Key: doc(key), Value: []byte("put")}); err != nil {
			t.Fatal(err)
		}
		within(t, time.Millisecond, "the get", func() error {
			a, err := c.nodes[0].Get(t.Context(), doc(key), false)
			if err == nil && string(a.Entry.Value) != "put" {
				err = fmt.Errorf("answered with %q", a.Entry.Value)
			}
			return err
		})
		release()
		if by := answers(); len(by[key+"#1"])+len(by["put"]) != 50 {
			t.Errorf("%d kinds of answers", len(by))
		}
	})
}

func TestEachThatSharesACallLeavesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(0, 1)
		release := c.origin.hang(key)
		defer release()
		first, leave := context.WithCancel(t.Context())
		gone := c.crowd(first, 0, key)
		hurried, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		late := c.crowd(hurried, 0, times(3, key)...)
		stays := c.crowd(t.Context(), 0, times(3, key)...)
		leave()
		if by := gone(); len(by["context canceled"]) != 1 {
			t.Errorf("the first that left: %v", by)
		}
		for said, all := range late() {
			if len(all) != 3 || !errors.Is(all[0].err, cache.ErrOriginTimeout) {
				t.Errorf("those with a second: %s, %v", said, all)
			}
		}
		if n := c.inFlight(0, 1); n != 1 {
			t.Errorf("%d calls are under way for those that stayed", n)
		}
		release()
		if by := stays(); len(by[key+"#1"]) != 3 {
			t.Errorf("those that stayed: %v", by)
		}
		if n := c.origin.loads(key); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}

func TestACallIsCancelledWhenAllThatShareItHaveLeft(t *testing.T) {
	for _, last := range []string{"the one that made it", "another"} {
		t.Run(last, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, 2)
				key := c.key(0, 1)
				release := c.origin.hang(key)
				defer release()
				first, leave := context.WithCancel(t.Context())
				others, theyLeave := context.WithCancel(t.Context())
				made, joined := c.crowd(first, 0, key), c.crowd(others, 0, times(5, key)...)
				if last == "another" {
					leave, theyLeave = theyLeave, leave
				}
				theyLeave()
				synctest.Wait()
				if n := c.inFlight(0, 1); n != 1 {
					t.Errorf("%d calls are under way for those that wait yet", n)
				}
				leave()
				made()
				joined()
				synctest.Wait()
				if n := c.inFlight(0, 1); n != 0 {
					t.Errorf("%d calls are under way for nobody", n)
				}
			})
		})
	}
}

// A call ends with the deadline of the get that made it. A get that shares the call may
// have more time, and needs no load of its own.
func TestAGetThatSharesACallKeepsItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(0, 1)
		release := c.origin.hang(key)
		defer release()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		first := c.crowd(short, 0, key)
		others := c.crowd(t.Context(), 0, times(10, key)...)
		for said, all := range first() {
			if !errors.Is(all[0].err, cache.ErrOriginTimeout) {
				t.Error("the first:", said)
			}
		}
		<-time.After(5 * time.Second)
		if n := c.inFlight(0, 1); n != 1 {
			t.Errorf("%d calls are under way", n)
		}
		release()
		if by := others(); len(by[key+"#1"]) != 10 {
			t.Errorf("the others: %v", by)
		}
		if n := c.origin.loads(key); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}

func TestALoadThatFailsIsAnErrorForAllThatShareItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2, func(i int, o *options) { o.docs().LoadTimeout = 2 * time.Second })
		key := c.key(0, 1)
		defer c.origin.hang(key)()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		answers := c.crowd(ctx, 0, times(30, key)...)
		began := time.Now()
		for said, all := range answers() {
			if len(all) != 30 || !errors.Is(all[0].err, cache.ErrOriginTimeout) {
				t.Errorf("%d: %s", len(all), said)
			}
		}
		if took := time.Since(began); took > 3*time.Second || c.origin.loads(key) != 1 {
			t.Errorf("after %v, %d loads", took, c.origin.loads(key))
		}
	})
}

// The node that acts goes while many gets share a call to it. All turn to the next one.
func TestThoseThatShareACallAllTurnToTheNextOwner(t *testing.T) {
	for name, goes := range map[string]func(c *harness) (back func()){
		"killed":      func(c *harness) func() { c.kill(1); return func() {} },
		"hung":        func(c *harness) func() { return c.hold(1) },
		"link broken": func(c *harness) func() { c.net.Break("n0:1", "n1:1"); return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, 3)
				key := c.key(0, 1, 2)
				release := c.origin.hang(key)
				defer release()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				answers := c.crowd(ctx, 0, times(200, key)...)
				back := goes(c)
				defer back()
				<-time.After(3 * time.Second)
				want := 2
				if name == "link broken" {
					want = 1
				}
				if n := c.inFlight(0, want); n != 1 && name != "link broken" {
					t.Errorf("%d calls to the next owner", n)
				}
				release()
				right := 0
				for value, all := range answers() {
					if value == fmt.Sprint(key, "#1") || value == fmt.Sprint(key, "#2") {
						right += len(all)
					} else {
						t.Errorf("%d: %s", len(all), value)
					}
				}
				if n := c.origin.loads(key); right != 200 || n != want {
					t.Errorf("%d of 200 answered, %d loads, want %d", right, n, want)
				}
			})
		})
	}
}

// The link between two nodes is gone, and a third node passes their calls on. These are
// shared all the same, and hold up nothing.
func TestCallsThatArePassedOnAreSharedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		key := c.key(0, 1, 2)
		join := c.part(0, 1)
		c.awaitOpen(0, 1)
		release := c.origin.hang(key)
		answers := c.crowd(t.Context(), 0, times(1100, key)...)
		if here, there := c.inFlight(0, 2), c.inFlight(2, 1); here != 1 || there != 1 {
			t.Errorf("%d calls to the node that passes on, %d from it", here, there)
		}
		c.othersPass(0, 2)
		release()
		if by := answers(); len(by[key+"#1"]) != 1100 || c.origin.loads(key) != 1 {
			t.Errorf("%d answered, %d loads", len(by[key+"#1"]), c.origin.loads(key))
		}
		join()
	})
}

// No reader gets a value that is older than a write acknowledged before its get began,
// also when it shares the call of another reader.
func TestSharingNeverGoesBackBehindAcknowledgedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		truth := newVersions(5)
		c := start(t, 3, func(_ int, o *options) { o.cache.Loader = truth })
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		var clients sync.WaitGroup
		for i := range 60 {
			clients.Go(func() {
				for ctx.Err() == nil {
					key := rand.IntN(truth.keys)
					least := truth.acknowledged[key].Load()
					own, stop := context.WithTimeout(ctx, time.Duration(20+rand.IntN(200))*time.Millisecond)
					a, err := c.nodes[i%3].Get(own, doc(fmt.Sprint(key)), false)
					stop()
					if err == nil {
						truth.reads.Add(1)
						if got := versionIn(a.Entry); got < least {
							t.Errorf("key %d: version %d (kind %d, from %s), but a write of version %d was acknowledged before the get began", key, got, a.Kind, a.Node, least)
						}
					}
					<-time.After(time.Duration(rand.IntN(5)) * time.Millisecond)
				}
			})
		}
		for key := range truth.keys {
			clients.Go(func() {
				for ctx.Err() == nil {
					version, n, k := truth.current[key].Add(1), c.nodes[rand.IntN(3)], doc(fmt.Sprint(key))
					var err error
					switch rand.IntN(3) {
					case 0:
						_, err = n.Put(t.Context(), &cache.Request{Key: k, Value: fmt.Append(nil, version), TTL: time.Duration(1+rand.IntN(40)) * time.Millisecond})
					case 1:
						err = n.Delete(t.Context(), k)
					default:
						err = n.Purge(t.Context(), "docs")
					}
					if err != nil {
						t.Error(err)
					}
					truth.acknowledged[key].Store(version)
					<-time.After(time.Duration(rand.IntN(60)) * time.Millisecond)
				}
			})
		}
		clients.Wait()
		c.origin.total = int(truth.loads.Load())
		joined := uint64(0)
		for _, n := range c.nodes {
			joined += n.Stats().Joined
		}
		if truth.reads.Load() < 1000 || joined < 100 {
			t.Errorf("%d reads, %d joined: too few to say anything", truth.reads.Load(), joined)
		}
	})
}

// versions is an origin whose answers are as old as they can be: they are of the time of
// the request.
type versions struct {
	keys                  int
	current, acknowledged []atomic.Int64
	loads, reads          atomic.Int64
}

func newVersions(keys int) *versions {
	return &versions{keys: keys, current: make([]atomic.Int64, keys), acknowledged: make([]atomic.Int64, keys)}
}

func (v *versions) Load(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
	l.Sent.Add(1)
	v.loads.Add(1)
	key, err := strconv.Atoi(l.Key.Key)
	if err != nil {
		return cache.Loaded{}, err
	}
	value := fmt.Append(nil, v.current[key].Load())
	select {
	case <-time.After(time.Duration(rand.IntN(80)) * time.Millisecond):
	case <-ctx.Done():
		return cache.Loaded{}, ctx.Err()
	}
	freshness := cache.Unsaid
	freshness.TTL, freshness.StaleWhileRevalidate, freshness.StaleIfError = 20*time.Millisecond, 0, 0
	return cache.Loaded{Entry: &cache.Entry{Value: value}, Status: 200, Endpoint: "a", Freshness: freshness}, nil
}

func versionIn(e *cache.Entry) int64 {
	n, err := strconv.ParseInt(string(e.Value), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// A load is on the account of the get that started it, whichever get is told first.
func TestTheGetThatStartsALoadSharesNobodysCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		const rounds = 40
		for i := range rounds {
			release := c.origin.hang(c.key(i, 1))
			answers := c.crowd(t.Context(), 0, times(20, c.key(i, 1))...)
			release()
			answers()
		}
		if s := c.nodes[1].Stats(); s.ServedLoads != rounds || s.Refreshes != 0 {
			t.Errorf("%d loads are a get's, %d nobody's, want %d and none", s.ServedLoads, s.Refreshes, rounds)
		}
	})
}
