package balance_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
)

// backend is where a policy keeps its state.
type backend struct {
	open func(t testing.TB, cfg balance.Config) *balance.Pool
	wait func(d time.Duration)
	// each is how many of n picks to make: on Redis n would take too long.
	each func(n int) int
}

// busyLease is long enough not to lapse on a busy machine.
const busyLease = 4 * time.Second

// everyBackend runs a case on virtual time in this process, and on Redis.
func everyBackend(t *testing.T, f func(t *testing.T, b backend)) {
	t.Run("local", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, backend{newPool, time.Sleep, func(n int) int { return n }}) })
	})
	t.Run("redis", func(t *testing.T) {
		r := dialRedis(t, redisConfig(commonRedis(t).addr))
		open := func(t testing.TB, cfg balance.Config) *balance.Pool { return openPool(t, cfg, r) }
		f(t, backend{open, func(d time.Duration) { <-time.After(d) }, func(n int) int { return n / 20 }})
	})
}

func named(policy string, names ...string) balance.Config {
	cfg := config(policy)
	for _, name := range names {
		cfg.Endpoints = append(cfg.Endpoints, balance.EndpointConfig{Name: name, URL: "http://" + name + ".test", Weight: 1})
	}
	return cfg
}

func TestLeastAssignedTiesGoInByteOrder(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		p := b.open(t, named("least_assigned", "b", "a", "c", "B", "a10", "a2"))
		var got []string
		for range 7 {
			got = append(got, names(t, p, 1, true))
		}
		if want := "B a a10 a2 b c B"; strings.Join(got, " ") != want {
			t.Errorf("picks %v, want %s", got, want)
		}
	})
}

func TestLeastAssignedWeights(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		if got := names(t, b.open(t, config("least_assigned", 5, 1, 1)), 14, true); got != "abcaaaaabcaaaa" {
			t.Errorf("picks %s, want abcaaaaabcaaaa", got)
		}
	})
}

func TestLeastAssignedIsEven(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		const clients = 16
		each := b.each(200_000 / clients) // on Redis: TestProcessesShareAPool
		p := b.open(t, config("least_assigned", 1, 1, 1))
		names(t, p, 1, true)
		before := p.Status().LocalPicks
		pickAtOnce(t, p, clients, each, succeed)
		var total, least, most int64
		least = 1 << 40
		for _, e := range p.Inspect(t.Context()).Endpoints {
			total, least, most = total+e.Assigned, min(least, e.Assigned), max(most, e.Assigned)
		}
		if total != int64(clients*each+1) || most-least > 1 || p.Status().LocalPicks != before {
			t.Errorf("%d assigned, %d to %d each; want %d, at most 1 apart: %+v", total, least, most, clients*each+1, p.Status())
		}
	})
}

func TestNoEndpointToAssignTo(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		for _, policy := range []string{"least_assigned", "least_in_flight"} {
			cfg := config(policy, 0)
			cfg.Name = policy
			p := b.open(t, cfg)
			if _, err := p.Pick(t.Context()); !errors.Is(err, balance.ErrNoEligible) {
				t.Errorf("%s: pick: %v, want ErrNoEligible", policy, err)
			}
			if _, err := p.Assign(t.Context()); !errors.Is(err, balance.ErrNoEligible) {
				t.Errorf("%s: assign: %v, want ErrNoEligible", policy, err)
			}
			if e := inspected(t, p, "a"); e.Assigned != 0 || e.InFlight != 0 {
				t.Errorf("%s: %+v, want nothing counted", policy, e)
			}
		}
	})
}

func put(t testing.TB, p *balance.Pool, name, url string) {
	t.Helper()
	if _, err := p.PutEndpoint(t.Context(), name, balance.EndpointChange{URL: &url}); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

func remove(t testing.TB, p *balance.Pool, name string) {
	t.Helper()
	if err := p.RemoveEndpoint(t.Context(), name); err != nil {
		t.Fatalf("remove %s: %v", name, err)
	}
}

// awaitSync waits until new members can be chosen.
func awaitSync(t testing.TB, p *balance.Pool) {
	t.Helper()
	if st := p.Inspect(t.Context()); st.Degraded {
		t.Fatal("the pool is degraded")
	}
}

func TestLateEndpointStartsWithTheOthers(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		cfg := config("least_assigned", 1, 1, 1)
		p := b.open(t, cfg)
		remove(t, p, "c")
		awaitSync(t, p)
		names(t, p, 200, true)
		put(t, p, "c", cfg.Endpoints[2].URL)
		awaitSync(t, p)
		if got := names(t, p, 6, true); got != "abcabc" {
			t.Errorf("picks %s after c came, want abcabc", got)
		}
		// A removed endpoint keeps its count: a is far behind b by then.
		remove(t, p, "b")
		remove(t, p, "c")
		awaitSync(t, p)
		names(t, p, 4, true)
		remove(t, p, "a")
		put(t, p, "b", cfg.Endpoints[1].URL)
		awaitSync(t, p)
		names(t, p, 1, true)
		put(t, p, "a", cfg.Endpoints[0].URL)
		awaitSync(t, p)
		if got := names(t, p, 5, true); got != "bbbab" {
			t.Errorf("picks %s after a came back, want bbbab: it keeps its count", got)
		}
	})
}

// An endpoint that was ejected or taken out by the operator does not catch up.
func TestLeastAssignedDoesNotCatchUp(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		p := b.open(t, config("least_assigned", 1, 1))
		names(t, p, 2, true)
		p.SetEligible("b", false)
		awaitSync(t, p)
		if got := names(t, p, 100, true); strings.Contains(got, "b") {
			t.Errorf("picks %s while b is not eligible", got)
		}
		p.SetEligible("b", true)
		awaitSync(t, p)
		if got := names(t, p, 4, true); got != "abab" {
			t.Errorf("picks %s after b is back, want abab", got)
		}
	})
}

func TestLeastInFlightTiesGoToTheLeastRecentlyAssigned(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		if got := names(t, b.open(t, config("least_in_flight", 1, 1, 1)), 6, true); got != "abcabc" {
			t.Errorf("picks %s, want abcabc", got)
		}
	})
}

func TestLeastInFlightFillsTheGap(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		p := b.open(t, config("least_in_flight", 1, 1, 1))
		var ofB balance.Pick
		for range 6 {
			if got := pick(t, p); got.Endpoint.Name == "b" {
				ofB = got
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			if n := inspected(t, p, name).InFlight; n != 2 {
				t.Errorf("%s has %d in flight, want 2", name, n)
			}
		}
		ofB.Done(balance.Success)
		if got := names(t, p, 1, false); got != "b" {
			t.Errorf("picked %s, want b", got)
		}
	})
}

func TestLeastInFlightWeights(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		p := b.open(t, config("least_in_flight", 4, 2, 1))
		names(t, p, 14, false)
		for name, want := range map[string]int64{"a": 8, "b": 4, "c": 2} {
			if n := inspected(t, p, name).InFlight; n != want {
				t.Errorf("%s has %d in flight, want %d", name, n, want)
			}
		}
	})
}

// least_assigned shares its count. Each process knows only its own unfinished
// requests.
func TestLeastAssignedShowsWhatIsInFlight(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		p := b.open(t, config("least_assigned", 1, 1))
		held := assign(t, p)
		other := pick(t, p)
		for _, name := range []string{"a", "b"} {
			if n := inspected(t, p, name).InFlight; n != 1 {
				t.Errorf("%s has %d in flight, want 1", name, n)
			}
		}
		complete(t, p, held.ID)
		other.Done(balance.Success)
		for _, name := range []string{"a", "b"} {
			if n := inspected(t, p, name).InFlight; n != 0 {
				t.Errorf("%s has %d in flight, want 0", name, n)
			}
		}
	})
}

func assign(t testing.TB, p *balance.Pool) balance.Assignment {
	t.Helper()
	a, err := p.Assign(t.Context())
	if err != nil {
		t.Fatalf("assign: %v", err)
	}
	return a
}

func complete(t testing.TB, p *balance.Pool, id string) {
	t.Helper()
	if err := p.Complete(t.Context(), id, balance.Success); err != nil {
		t.Fatalf("complete: %v", err)
	}
}

func TestCompletionIsIdempotent(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		p := b.open(t, config("least_in_flight", 1))
		held, other := assign(t, p), assign(t, p)
		if held.ExpiresIn != 30*time.Second || held.Endpoint.URL != "http://a.test:80" || held.ID == other.ID {
			t.Errorf("assignments %+v and %+v", held, other)
		}
		for i, want := range []int64{1, 1, 1} {
			complete(t, p, held.ID)
			if n := inspected(t, p, "a").InFlight; n != want {
				t.Errorf("completion %d: %d in flight, want %d", i+1, n, want)
			}
		}
		complete(t, p, other.ID)
		complete(t, p, "unknown")
		complete(t, p, other.ID)
		if n := inspected(t, p, "a").InFlight; n != 0 {
			t.Errorf("%d in flight, want 0", n)
		}
	})
}

func TestAbandonedAssignmentsLapse(t *testing.T) {
	t.Parallel() // it waits most of the time
	everyBackend(t, func(t *testing.T, b backend) {
		cfg := config("least_in_flight", 1)
		cfg.Lease = busyLease
		p := b.open(t, cfg)
		var ids []string
		for range 7 {
			ids = append(ids, assign(t, p).ID)
		}
		if n := inspected(t, p, "a").InFlight; n != 7 {
			t.Fatalf("%d in flight, want 7", n)
		}
		b.wait(cfg.Lease + 100*time.Millisecond)
		assign(t, p)
		if n := inspected(t, p, "a").InFlight; n != 1 {
			t.Errorf("%d in flight after the leases lapsed, want 1", n)
		}
		for _, id := range ids {
			if _, err := p.Renew(t.Context(), id); !errors.Is(err, balance.ErrUnknownAssignment) {
				t.Errorf("renewal after the lapse: %v, want ErrUnknownAssignment", err)
			}
			complete(t, p, id)
		}
		if n := inspected(t, p, "a").InFlight; n != 1 {
			t.Errorf("%d in flight after late completions, want 1", n)
		}
	})
}

func TestRenewedAssignmentsLast(t *testing.T) {
	t.Parallel() // it waits most of the time
	everyBackend(t, func(t *testing.T, b backend) {
		cfg := config("least_in_flight", 1)
		cfg.Lease = busyLease
		p := b.open(t, cfg)
		long, short := assign(t, p), assign(t, p)
		for range 4 {
			b.wait(cfg.Lease / 3)
			d, err := p.Renew(t.Context(), long.ID)
			if err != nil || d != cfg.Lease {
				t.Fatalf("renewal: %v, %v", d, err)
			}
		}
		if n := inspected(t, p, "a").InFlight; n != 1 {
			t.Errorf("%d in flight, want the renewed one", n)
		}
		if _, err := p.Renew(t.Context(), short.ID); !errors.Is(err, balance.ErrUnknownAssignment) {
			t.Errorf("renewal of the other: %v, want ErrUnknownAssignment", err)
		}
		complete(t, p, long.ID)
	})
}

// A process renews the leases of its own picks.
func TestLongRequestsKeepTheirLease(t *testing.T) {
	t.Parallel() // it waits most of the time
	everyBackend(t, func(t *testing.T, b backend) {
		cfg := config("least_in_flight", 1)
		cfg.Lease = busyLease
		p := b.open(t, cfg)
		held := pick(t, p)
		b.wait(cfg.Lease + cfg.Lease/2)
		if n := inspected(t, p, "a").InFlight; n != 1 {
			t.Errorf("%d in flight, want 1: the request still runs", n)
		}
		held.Done(balance.Success)
		if n := inspected(t, p, "a").InFlight; n != 0 {
			t.Errorf("%d in flight, want 0", n)
		}
	})
}

func TestRemovalKeepsLeases(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		cfg := config("least_in_flight", 1, 1)
		p := b.open(t, cfg)
		remove(t, p, "b")
		awaitSync(t, p)
		var held []balance.Pick
		for range 3 {
			held = append(held, pick(t, p))
		}
		remove(t, p, "a")
		if _, err := p.Pick(t.Context()); !errors.Is(err, balance.ErrNoEligible) {
			t.Fatalf("pick without endpoints: %v", err)
		}
		put(t, p, "a", cfg.Endpoints[0].URL)
		for want := int64(3); ; want-- {
			if n := inspected(t, p, "a").InFlight; n != want {
				t.Errorf("a has %d in flight, want %d", n, want)
			}
			if want == 0 {
				break
			}
			held[want-1].Done(balance.Success)
		}
	})
}

func TestEveryOutcomeEndsTheLease(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		cfg := config("least_in_flight", 3, 1, 2)
		p := b.open(t, cfg)
		pickAtOnce(t, p, 8, 10_000/8, anyhow)
		for _, e := range p.Inspect(t.Context()).Endpoints {
			if e.InFlight != 0 {
				t.Errorf("endpoint %s: %d in flight, want 0", e.Name, e.InFlight)
			}
		}
	})
}
