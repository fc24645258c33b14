package cache_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

// short gives docs a TTL of 10 s, 5 s of stale-while-revalidate and a minute
// of stale-if-error.
func short(g *cache.GroupConfig) {
	g.TTL, g.StaleWhileRevalidate, g.StaleIfError = 10*second, 5*second, 60*second
}

func TestFreshThenStaleThenLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
		pass(10*second - 1)
		f.wants(f.get(doc("k")), "k#1", cache.KindHit)
		pass(1)
		f.wants(f.get(doc("k")), "k#1", cache.KindStale)
		synctest.Wait()
		f.wants(f.get(doc("k")), "k#2", cache.KindHit)
		pass(15 * second)
		f.wants(f.get(doc("k")), "k#3", cache.KindLoad)
	})
}

func TestNoGetWaitsForARefreshAndOnlyOneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.get(doc("k"))
		pass(10 * second)
		f.origin.latency = 3 * second
		began := time.Now()
		by := f.crowd(200, doc("k"))()
		if len(by[cache.KindStale]) != 200 || time.Since(began) != 0 {
			t.Errorf("%d stale answers after %v", len(by[cache.KindStale]), time.Since(began))
		}
		pass(3 * second)
		if n := f.origin.loads("k"); n != 2 {
			t.Errorf("%d loads", n)
		}
		f.wants(f.get(doc("k")), "k#2", cache.KindHit)
	})
}

func TestFailedRefreshBacksOffAndKeepsTheGoodValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) {
			g.TTL, g.StaleWhileRevalidate, g.StaleIfError = 10*second, 30*second, 90*second
		}))
		f.get(doc("k"))
		f.origin.set(0, failing)
		pass(10 * second)
		for range 290 { // through stale-while-revalidate and into stale-if-error
			f.wants(f.get(doc("k")), "k#1", cache.KindStale)
			pass(100 * time.Millisecond)
		}
		// Back-offs of 0.5–1, 1–2, 2–4 and then 4–8 s.
		if n := f.origin.loads("k") - 1; n < 5 || n > 11 {
			t.Errorf("%d tries in 29 s", n)
		}
		f.origin.set(0, counting)
		pass(8 * second)
		f.get(doc("k"))
		synctest.Wait()
		if g := f.get(doc("k")); g.Kind != cache.KindHit {
			t.Errorf("kind %v after the origin has recovered", g.Kind)
		}
	})
}

func TestStaleIfErrorWaitsForTheLoadFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.get(doc("k"))
		pass(15 * second)
		f.origin.set(second, failing)
		began := time.Now()
		by := f.crowd(10, doc("k"))()
		for _, g := range by[cache.KindStale] {
			f.wants(g, "k#1", cache.KindStale)
			if !g.StaleError {
				t.Error("not marked as served because of an error")
			}
		}
		if len(by[cache.KindStale]) != 10 || time.Since(began) != second {
			t.Errorf("%v after %v", by, time.Since(began))
		}
		f.wants(f.get(doc("k")), "k#1", cache.KindStale) // at once, by the remembered error
		if time.Since(began) != second {
			t.Error("waited for an origin that is known to fail")
		}
		f.origin.set(0, counting)
		pass(second)
		f.wants(f.get(doc("k")), "k#3", cache.KindLoad)
		f.origin.set(0, failing)
		pass(75 * second)
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
	})
}

func TestMissingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.NegativeTTL = 5 * second }))
		f.origin.set(0, missing)
		f.wantsNothing(f.get(doc("k")), cache.KindLoad)
		f.wantsNothing(f.get(doc("k")), cache.KindHit)
		if s := f.Stats(); s.Negative != 1 || s.Hits != 1 || s.Entries != 1 {
			t.Errorf("%+v", s)
		}
		if cp, ok := f.Copy(doc("k")); !ok || cp.Role != "negative" || cp.TTL != 5 {
			t.Errorf("%+v", cp)
		}
		pass(5 * second)
		f.origin.set(0, counting)
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
		f.wants(f.get(doc("k")), "k#2", cache.KindHit)
		if n := f.Stats().Entries; n != 1 {
			t.Errorf("%d entries", n)
		}
		pass(60 * second)
		f.origin.set(0, missing)
		f.wants(f.get(doc("k")), "k#2", cache.KindStale)
		synctest.Wait()
		f.wantsNothing(f.get(doc("k")), cache.KindHit)
		pass(5 * second)
		f.origin.set(0, failing)
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
	})
}

func TestFloodOfMissingKeysEvictsNoValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(o *cache.Options) { o.Config.MaxBytes = 1 << 20 })
		for i := range 500 {
			f.get(doc(fmt.Sprint("hot", i)))
		}
		f.origin.set(0, missing)
		for i := range 10000 {
			f.wantsNothing(f.get(doc(fmt.Sprint("missing", i))), cache.KindLoad)
		}
		for i := range 500 {
			f.wants(f.get(doc(fmt.Sprint("hot", i))), fmt.Sprintf("hot%d#1", i), cache.KindHit)
		}
		if s := f.Stats(); s.Entries > 600 || s.Evictions == 0 {
			t.Errorf("%d entries, %d evictions", s.Entries, s.Evictions)
		}
	})
}

func TestRefreshAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.TTL, g.RefreshAhead = 10*second, 0.2 }))
		f.get(doc("asked for"))
		f.get(doc("not asked for"))
		pass(8 * second)
		f.wants(f.get(doc("asked for")), "asked for#1", cache.KindHit)
		synctest.Wait()
		if n := f.origin.total(); n != 2 {
			t.Errorf("%d loads before the last share of the TTL", n)
		}
		pass(1)
		f.origin.latency = second
		for range 10 {
			f.wants(f.get(doc("asked for")), "asked for#1", cache.KindHit)
		}
		pass(second)
		f.wants(f.get(doc("asked for")), "asked for#2", cache.KindHit)
		pass(5 * second)
		if a, b := f.origin.loads("asked for"), f.origin.loads("not asked for"); a != 2 || b != 1 {
			t.Errorf("%d and %d loads", a, b)
		}
	})
}

func TestJitterOnlyShortensLifetimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.TTL, g.Jitter = 100*second, 0.5 }))
		shortest, longest := time.Hour, time.Duration(0)
		for i := range 1000 {
			ttl := f.get(doc(fmt.Sprint(i))).Entry.TTL()
			shortest, longest = min(shortest, ttl), max(longest, ttl)
		}
		if shortest < 50*second || shortest > 60*second || longest > 100*second || longest < 90*second {
			t.Errorf("lifetimes of %v to %v", shortest, longest)
		}
		exact := f.putCtx(t.Context(), cache.Request{Key: doc("put"), Value: []byte("v"), TTL: 100 * second})
		if exact.err != nil || exact.Entry.TTL() != 100*second {
			t.Errorf("%v: a TTL that was asked for became %v", exact.err, exact.Entry.TTL())
		}
	})
}

// The origin's headers decide how long its answer is used, and in which way.
func TestCacheControl(t *testing.T) {
	const never = -1
	f := func(ttl, swr, sie time.Duration) cache.Freshness {
		return cache.Freshness{TTL: ttl, StaleWhileRevalidate: swr, StaleIfError: sie}
	}
	mustRevalidate := f(20*second, never, never)
	mustRevalidate.MustRevalidate = true
	noCache := f(20*second, never, never)
	noCache.NoCache = true
	noStore := f(20*second, never, never)
	noStore.NoStore = true
	aged := f(20*second, never, never)
	aged.Age = 15 * second
	rows := []struct {
		name             string
		said             cache.Freshness
		ignored          bool // respect_cache_control is off
		fresh, swr, sie  time.Duration
		revalidatesAtAll bool
	}{
		{name: "nothing", said: cache.Unsaid, fresh: 10 * second, swr: 5 * second, sie: 60 * second},
		{name: "max-age=20", said: f(20*second, never, never), fresh: 20 * second, swr: 5 * second, sie: 60 * second},
		{name: "max-age=20, not respected", said: f(20*second, 0, 0), ignored: true, fresh: 10 * second, swr: 5 * second, sie: 60 * second},
		{name: "stale-while-revalidate=1", said: f(never, second, never), fresh: 10 * second, swr: second, sie: 60 * second},
		{name: "stale-if-error=8", said: f(never, never, 8*second), fresh: 10 * second, swr: 5 * second, sie: 8 * second},
		{name: "must-revalidate", said: mustRevalidate, fresh: 20 * second},
		{name: "no-cache", said: noCache},
		{name: "no-store", said: noStore},
		{name: "max-age=0", said: f(0, never, never), sie: 60 * second},
		{name: "max-age=0, stale-while-revalidate=2", said: f(0, 2*second, never), swr: 2 * second, sie: 60 * second},
		{name: "Age: 15", said: aged, fresh: 5 * second, swr: 5 * second, sie: 60 * second},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(func(g *cache.GroupConfig) {
					short(g)
					g.RespectCacheControl = !row.ignored
				}))
				load := func() {
					f.DropGroup("docs")
					f.origin.set(0, saying(row.said))
					if g := f.get(doc("k")); g.Kind != cache.KindLoad {
						t.Fatalf("%+v", g)
					}
				}
				at := func(age time.Duration, want cache.Kind, why string) {
					t.Helper()
					load()
					f.origin.set(0, failing)
					pass(age)
					if g := f.get(doc("k")); g.Kind != want {
						t.Errorf("%s: after %v kind %v, want %v", why, age, g.Kind, want)
					}
				}
				if row.fresh > 0 {
					at(row.fresh-1, cache.KindHit, "fresh")
				}
				if row.swr > 0 {
					at(row.fresh, cache.KindStale, "stale while revalidate")
					at(row.fresh+row.swr-1, cache.KindStale, "stale while revalidate")
				}
				if last := max(row.swr, row.sie); last > 0 {
					at(row.fresh+last-1, cache.KindStale, "stale if error")
				}
				at(row.fresh+max(row.swr, row.sie), cache.KindLoad, "over")
				if row.sie > row.swr {
					load()
					pass(row.fresh + row.swr)
					if g := f.get(doc("k")); g.Kind != cache.KindLoad || g.err != nil {
						t.Errorf("between the windows: %+v", g)
					}
				}
			})
		})
	}
}

func TestANoStoreValueIsSharedWithItsWaitersAndNeverStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		noStore := cache.Unsaid
		noStore.NoStore = true
		f.origin.set(second, saying(noStore))
		by := f.crowd(50, doc("k"))()
		if len(by[cache.KindLoad]) != 1 || len(by[cache.KindJoined]) != 49 || by[cache.KindLoad][0].Stored {
			t.Errorf("answers by kind: %v", by)
		}
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
		if s := f.Stats(); s.Entries != 0 {
			t.Errorf("%d entries", s.Entries)
		}
	})
}

// An answer that may not be stored ends the value that is stored.
func TestNoStoreRemovesTheOldValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.get(doc("k"))
		pass(10 * second)
		noStore := cache.Unsaid
		noStore.NoStore = true
		f.origin.set(0, saying(noStore))
		f.wants(f.get(doc("k")), "k#1", cache.KindStale)
		synctest.Wait()
		f.wants(f.get(doc("k")), "k#3", cache.KindLoad)
	})
}

func TestRevalidation(t *testing.T) {
	for name, validate := range map[string]func(e *cache.Entry){
		"etag":          func(e *cache.Entry) { e.OriginETag = `"v1"` },
		"last-modified": func(e *cache.Entry) { e.LastModified = "Mon, 02 Jan 2006 15:04:05 GMT" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(short))
				f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
					if l.Previous != nil {
						return cache.Loaded{NotModified: true, Status: 304, Freshness: cache.Unsaid}, nil
					}
					loaded, err := counting(n, l)
					validate(loaded.Entry)
					return loaded, err
				})
				first := f.get(doc("k"))
				f.wants(first, "k#1", cache.KindLoad)
				pass(500 * second) // the entry ended long ago, and is kept for its validator
				again := f.get(doc("k"))
				f.wants(again, "k#1", cache.KindLoad)
				if again.Status != 304 || again.Entry.ETag != first.Entry.ETag || again.Entry.Version == first.Entry.Version {
					t.Errorf("%+v", again)
				}
				pass(second)
				f.wants(f.get(doc("k")), "k#1", cache.KindHit)
				f.remove(doc("k"))
				f.wants(f.get(doc("k")), "k#3", cache.KindLoad) // no validator is left
			})
		})
	}
}

// A 304 that says nothing of freshness leaves in force what the 200 said. A 304 that says
// something replaces it.
func TestRevalidationKeepsWhatTheOriginSaid(t *testing.T) {
	twenty := cache.Freshness{TTL: 20 * second, StaleWhileRevalidate: 3 * second, StaleIfError: -1}
	noCache := cache.Unsaid
	noCache.NoCache = true
	aged := cache.Unsaid
	aged.Age = 15 * second
	thirty := cache.Freshness{TTL: 30 * second, StaleWhileRevalidate: -1, StaleIfError: -1}
	for name, row := range map[string]struct {
		first, then cache.Freshness
		fresh, swr  time.Duration
	}{
		"nothing":              {twenty, cache.Unsaid, 20 * second, 3 * second},
		"nothing, to no-cache": {noCache, cache.Unsaid, 0, 0},
		"an age":               {twenty, aged, 5 * second, 3 * second},
		"another time":         {twenty, thirty, 30 * second, 5 * second},
		"no-cache":             {twenty, noCache, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(short))
				f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
					if l.Previous != nil {
						return cache.Loaded{NotModified: true, Status: 304, Freshness: row.then}, nil
					}
					loaded, err := saying(row.first)(n, l)
					loaded.Entry.OriginETag = `"v"`
					return loaded, err
				})
				f.get(doc("k"))
				pass(500 * second)
				f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
				if row.fresh > 0 {
					pass(row.fresh - 1)
					f.wants(f.get(doc("k")), "k#1", cache.KindHit)
					pass(row.swr)
					f.wants(f.get(doc("k")), "k#1", cache.KindStale)
					pass(row.fresh + row.swr + 1)
				}
				f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
				if s := f.Stats(); s.Revalidated != s.Loads+s.Refreshes-1 {
					t.Errorf("%d of %d loads and %d refreshes revalidated", s.Revalidated, s.Loads, s.Refreshes)
				}
			})
		})
	}
}

func TestCopyDescribesTheStateAndTheLastLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.origin.set(second, func(n int, l *cache.Load) (cache.Loaded, error) {
			if l.Previous != nil {
				return cache.Loaded{NotModified: true, Status: 304, Endpoint: "b", Freshness: cache.Unsaid}, nil
			}
			loaded, err := counting(n, l)
			loaded.Entry.OriginETag = `"v"`
			return loaded, err
		})
		copyIs := func(state string, status, waited int, code cache.Code) {
			t.Helper()
			c, ok := f.Copy(doc("k"))
			if !ok || c.State != state || c.LastLoad.Status != status || c.LastLoad.Waited != waited || c.LastLoad.Code != code {
				t.Errorf("%+v, last load %+v; want %s, %d, %d, %q", c, c.LastLoad, state, status, waited, code)
			}
		}
		f.crowd(4, doc("k"))()
		copyIs("fresh", 200, 4, "")
		pass(10 * second)
		copyIs("stale", 200, 4, "")
		pass(5 * second)
		copyIs("stale-if-error", 200, 4, "")
		pass(55 * second)
		copyIs("expired", 200, 4, "")
		f.get(doc("k"))
		copyIs("fresh", 304, 1, "")
		pass(15 * second)
		f.origin.set(0, failing)
		f.get(doc("k"))
		copyIs("stale-if-error", 0, 1, "origin-failed")
		pass(10 * second)
		f.origin.refuses(cache.ErrOriginFailed) // the endpoint does not listen: no request was sent
		f.get(doc("k"))
		copyIs("stale-if-error", 0, 1, "origin-failed")
		if c, _ := f.Copy(doc("k")); c.LastLoad.Endpoint != "a" {
			t.Errorf("endpoint %q", c.LastLoad.Endpoint)
		}
	})
}

func TestEndedEntriesWithoutAValidatorAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.get(doc("k"))
		f.put(kv("forever"), "v")
		if g := f.putCtx(t.Context(), cache.Request{Key: kv("k"), Value: []byte("v"), TTL: second}); g.err != nil {
			t.Fatal(g.err)
		}
		pass(second)
		f.wantsNothing(f.get(kv("k")), cache.KindHit) // no stale values in a plain group
		pass(100 * second)
		f.origin.refuses(cache.ErrNoEligibleEndpoint)
		f.wantsError(f.get(doc("k")), cache.ErrNoEligibleEndpoint, cache.KindRefused)
		f.wants(f.get(kv("forever")), "v", cache.KindHit)
		if s := f.Stats(); s.Entries != 1 {
			t.Errorf("%d entries", s.Entries)
		}
	})
}

// taking makes a load take that long, and say when it asked.
func taking(delay time.Duration, answer func(int, *cache.Load) (cache.Loaded, error)) func(int, *cache.Load) (cache.Loaded, error) {
	return func(n int, l *cache.Load) (cache.Loaded, error) {
		asked := time.Now()
		<-time.After(delay)
		loaded, err := answer(n, l)
		loaded.Asked = asked
		return loaded, err
	}
}

// The time that an answer takes to arrive is part of its age (RFC 9111 §4.2.3). A lifetime
// that the origin gave may have ended by then. The group's own lifetimes count from the
// arrival.
func TestTheTimeOfALoadIsPartOfTheAge(t *testing.T) {
	says := func(ttl, age time.Duration) cache.Freshness {
		return cache.Freshness{TTL: ttl, Age: age, StaleWhileRevalidate: 0, StaleIfError: 0}
	}
	for name, row := range map[string]struct {
		said     cache.Freshness
		negative bool
		ignored  bool // respect_cache_control is off
		age      time.Duration
		left     time.Duration // 0: it is not stored
	}{
		"max-age=2":                 {said: says(2*second, 0), age: 3 * second},
		"max-age=3":                 {said: says(3*second, 0), age: 3 * second},
		"max-age=4":                 {said: says(4*second, 0), age: 3 * second, left: second},
		"max-age=9, Age: 5":         {said: says(9*second, 5*second), age: 8 * second, left: second},
		"max-age=8, Age: 5":         {said: says(8*second, 5*second), age: 8 * second},
		"nothing":                   {said: cache.Unsaid, age: 3 * second, left: 10 * second},
		"max-age=2, not respected":  {said: says(2*second, 0), ignored: true, age: 3 * second, left: 10 * second},
		"missing":                   {said: cache.Unsaid, negative: true, age: 3 * second, left: 5 * second},
		"missing, max-age=2":        {said: says(2*second, 0), negative: true, age: 3 * second},
		"missing, max-age=4":        {said: says(4*second, 0), negative: true, age: 3 * second, left: second},
		"missing, max-age=3600":     {said: says(3600*second, 0), negative: true, age: 3 * second, left: 5 * second},
		"missing, longer than kept": {said: says(7*second, 0), negative: true, age: 3 * second, left: 4 * second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(short), group(func(g *cache.GroupConfig) {
					g.NegativeTTL, g.RespectCacheControl = 5*second, !row.ignored
				}))
				f.origin.set(0, taking(3*second, func(n int, l *cache.Load) (cache.Loaded, error) {
					loaded, err := saying(row.said)(n, l)
					loaded.Entry.Negative = row.negative
					return loaded, err
				}))
				first := f.get(doc("k"))
				if age := first.Entry.Age(time.Now()); age != row.age || first.Stored != (row.left > 0) {
					t.Errorf("age %v, stored %v; want %v, %v", age, first.Stored, row.age, row.left > 0)
				}
				if row.left > 0 {
					pass(row.left - 1)
					if g := f.get(doc("k")); g.Kind != cache.KindHit {
						t.Errorf("kind %v just before the end", g.Kind)
					}
					pass(1)
				}
				if n := f.origin.loads("k"); n != 1 {
					t.Errorf("%d loads", n)
				}
				f.get(doc("k"))
				synctest.Wait()
				if n := f.origin.loads("k"); n != 2 {
					t.Errorf("%d loads after the end", n)
				}
				pass(4 * second)
			})
		})
	}
}

// The time that a 304 takes counts likewise.
func TestTheTimeOfARevalidationIsPartOfTheAge(t *testing.T) {
	for name, said := range map[string]cache.Freshness{
		"that says nothing": cache.Unsaid, "that says it again": {TTL: 20 * second, StaleWhileRevalidate: 0, StaleIfError: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(short))
				f.origin.set(0, taking(3*second, func(n int, l *cache.Load) (cache.Loaded, error) {
					if l.Previous != nil {
						return cache.Loaded{NotModified: true, Status: 304, Freshness: said}, nil
					}
					loaded, err := saying(cache.Freshness{TTL: 20 * second, StaleWhileRevalidate: 0, StaleIfError: 0})(n, l)
					loaded.Entry.OriginETag = `"v"`
					return loaded, err
				}))
				f.get(doc("k"))
				pass(20 * second)
				if age := f.get(doc("k")).Entry.Age(time.Now()); age != 3*second {
					t.Errorf("age %v", age)
				}
				pass(17*second - 1)
				f.wants(f.get(doc("k")), "k#1", cache.KindHit)
				pass(1)
				f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
			})
		})
	}
}

// A missing key is loaded again when negative_ttl has passed, or sooner if the origin
// says so. It is never loaded later, and no key is missing for ever.
func TestHowLongAKeyIsMissing(t *testing.T) {
	says := func(ttl time.Duration) cache.Freshness {
		return cache.Freshness{TTL: ttl, StaleWhileRevalidate: -1, StaleIfError: -1}
	}
	noCache, noStore, old, aged := cache.Unsaid, cache.Unsaid, cache.Unsaid, says(10*second)
	noCache.NoCache, noStore.NoStore, old.Age, aged.Age = true, true, 60*second, 8*second
	windows := cache.Freshness{TTL: 3 * second, StaleWhileRevalidate: 60 * second, StaleIfError: 60 * second}
	for name, row := range map[string]struct {
		own     time.Duration
		said    cache.Freshness
		ignored bool
		lasts   time.Duration // 0: each get is a load
	}{
		"nothing said":                    {own: 5 * second, said: cache.Unsaid, lasts: 5 * second},
		"max-age=0":                       {own: 5 * second, said: says(0)},
		"max-age=3":                       {own: 5 * second, said: says(3 * second), lasts: 3 * second},
		"max-age=5":                       {own: 5 * second, said: says(5 * second), lasts: 5 * second},
		"max-age of a year":               {own: 5 * second, said: says(365 * 24 * 3600 * second), lasts: 5 * second},
		"max-age=10, Age: 8":              {own: 5 * second, said: aged, lasts: 2 * second},
		"Age: 60":                         {own: 5 * second, said: old, lasts: 5 * second},
		"no-cache":                        {own: 5 * second, said: noCache},
		"no-store":                        {own: 5 * second, said: noStore},
		"stale windows":                   {own: 5 * second, said: windows, lasts: 3 * second},
		"max-age=0, not respected":        {own: 5 * second, said: says(0), ignored: true, lasts: 5 * second},
		"negative_ttl: 0s":                {own: 0, said: cache.Unsaid},
		"negative_ttl: 0s, max-age=60":    {own: 0, said: says(60 * second)},
		"negative_ttl: 0s, max-age=0":     {own: 0, said: says(0)},
		"negative_ttl: 0s, not respected": {own: 0, said: says(60 * second), ignored: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, group(func(g *cache.GroupConfig) {
					g.NegativeTTL, g.RespectCacheControl = row.own, !row.ignored
				}))
				f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
					loaded, err := missing(n, l)
					loaded.Freshness = row.said
					return loaded, err
				})
				wantsLoads := func(n int, when string) {
					t.Helper()
					if e := f.get(doc("k")).Entry; e.Forever() {
						t.Errorf("%s: missing for ever: %+v", when, e)
					}
					if got := f.origin.loads("k"); got != n {
						t.Errorf("%s: %d loads, want %d", when, got, n)
					}
				}
				wantsLoads(1, "at first")
				if row.lasts == 0 {
					wantsLoads(2, "at once")
					pass(time.Hour)
					wantsLoads(3, "an hour later")
					return
				}
				wantsLoads(1, "at once")
				pass(row.lasts - 1)
				wantsLoads(1, "just before its end")
				pass(1)
				wantsLoads(2, "at its end")
			})
		})
	}
}

// The headers of a 304 replace the stored ones. All others stay.
func TestRevalidationTakesTheHeadersOfA304(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
			switch n {
			case 1:
				loaded, err := counting(n, l)
				loaded.Entry.OriginETag, loaded.Entry.LastModified, loaded.Entry.Tags = `"v"`, "Mon", []string{"red"}
				return loaded, err
			case 2:
				return cache.Loaded{NotModified: true, OriginETag: `W/"v"`, LastModified: "Tue", ContentType: "text/html", Tags: []string{"blue"}, Freshness: cache.Unsaid}, nil
			}
			return cache.Loaded{NotModified: true, Freshness: cache.Unsaid}, nil
		})
		first := f.get(doc("k"))
		for range 2 {
			pass(100 * second)
			g := f.get(doc("k"))
			f.wants(g, "k#1", cache.KindLoad)
			if e := g.Entry; e.OriginETag != `W/"v"` || e.LastModified != "Tue" || e.ContentType != "text/html" || e.Tags[0] != "blue" || e.ETag != first.Entry.ETag {
				t.Errorf("%+v", e)
			}
		}
	})
}
