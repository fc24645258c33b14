package balance_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"kring/balance"
)

// config is a pool of endpoints a, b, c, … with these weights.
func config(policy string, weights ...int) balance.Config {
	cfg := balance.DefaultConfig()
	cfg.Name, cfg.Policy = "test", policy
	for i, w := range weights {
		name := string(rune('a' + i))
		cfg.Endpoints = append(cfg.Endpoints, balance.EndpointConfig{Name: name, URL: "http://" + name + ".test:80", Weight: w})
	}
	return cfg
}

func newPool(t testing.TB, cfg balance.Config) *balance.Pool {
	t.Helper()
	p, err := balance.New(cfg, nil)
	if err != nil {
		t.Fatalf("new pool: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

func pick(t testing.TB, p *balance.Pool) balance.Pick {
	t.Helper()
	got, err := p.Pick(t.Context())
	if err != nil {
		t.Fatalf("pick: %v", err)
	}
	return got
}

// picks makes n picks, ends each with success, and returns their names.
func picks(t testing.TB, p *balance.Pool, n int) string {
	t.Helper()
	var b strings.Builder
	for range n {
		got := pick(t, p)
		b.WriteString(got.Endpoint.Name)
		got.Done(balance.Success)
		checkBooks(t, p)
	}
	return b.String()
}

// checkBooks checks what must hold between any two steps: the sums of the
// counts.
func checkBooks(t testing.TB, p *balance.Pool) {
	t.Helper()
	st := p.Status()
	var sum int64
	for _, e := range st.Endpoints {
		sum += e.CurrentWeight
		if e.InFlight < 0 || e.InFlight > e.Assigned {
			t.Fatalf("endpoint %s: %d in flight of %d assigned", e.Name, e.InFlight, e.Assigned)
		}
		if e.Weight == 0 && e.Assigned > 0 {
			t.Fatalf("endpoint %s of weight 0 was picked", e.Name)
		}
	}
	if st.Policy == "smooth_weighted" && sum != 0 {
		t.Fatalf("sum of current weights is %d: %+v", sum, st.Endpoints)
	}
}

func current(p *balance.Pool) []int64 {
	var all []int64
	for _, e := range p.Status().Endpoints {
		all = append(all, e.CurrentWeight)
	}
	return all
}

func endpoint(t testing.TB, p *balance.Pool, name string) balance.EndpointStatus {
	t.Helper()
	for _, e := range p.Status().Endpoints {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no endpoint %q", name)
	return balance.EndpointStatus{}
}

// exact policies choose as often as the weights say, whatever the requests do.
// least_in_flight depends on the requests.
var (
	exact    = []string{"round_robin", "weighted", "smooth_weighted", "least_assigned"}
	policies = append(exact[:len(exact):len(exact)], "least_in_flight")
)

// everyPolicy runs a test for each policy.
func everyPolicy(t *testing.T, f func(t *testing.T, policy string)) {
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) { f(t, policy) })
	}
}

func TestSequences(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		weights      []int
		want         string
	}{
		{"round robin", "round_robin", []int{1, 1, 1}, "abcabca"},
		{"round robin has no weights", "round_robin", []int{5, 1, 1}, "abcabca"},
		{"weighted", "weighted", []int{5, 1, 1}, "aaaaabcaaaaabc"},
		{"weighted, one", "weighted", []int{3}, "aaaa"},
		{"smooth 5/1/1", "smooth_weighted", []int{5, 1, 1}, "aabacaaaabacaa"},
		{"smooth 1/2/3", "smooth_weighted", []int{1, 2, 3}, "cbacbc"},
		{"smooth 4/2", "smooth_weighted", []int{4, 2}, "aba"},
		{"smooth 2/2/2", "smooth_weighted", []int{2, 2, 2}, "abc"},
		{"round robin, a weight of 0", "round_robin", []int{0, 3, 1}, "bcbcbc"},
		{"weighted, a weight of 0", "weighted", []int{0, 3, 1}, "bbbcbbbc"},
		{"smooth, a weight of 0", "smooth_weighted", []int{0, 3, 1}, "bbcbbbcb"},
		{"least assigned", "least_assigned", []int{2, 2, 2}, "abcabca"},
		{"least assigned, weighted", "least_assigned", []int{5, 1, 1}, "abcaaaaabcaaaa"},
		{"least assigned, a weight of 0", "least_assigned", []int{0, 3, 1}, "bcbbbcbb"},
		{"least in flight, nothing held", "least_in_flight", []int{5, 1, 1}, "abcabc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := picks(t, newPool(t, config(tt.policy, tt.weights...)), len(tt.want)); got != tt.want {
				t.Errorf("picks %s, want %s", got, tt.want)
			}
		})
	}
}

// The table of nginx's own example, pick by pick.
func TestSmoothCurrentWeights(t *testing.T) {
	p := newPool(t, config("smooth_weighted", 5, 1, 1))
	for i, want := range [][]int64{{-2, 1, 1}, {-4, 2, 2}, {1, -4, 3}, {-1, -3, 4}, {4, -2, -2}, {2, -1, -1}, {0, 0, 0}} {
		picks(t, p, 1)
		if got := current(p); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after pick %d current weights are %v, want %v", i+1, got, want)
		}
	}
}

func TestPicksFromManyGoroutinesAreExact(t *testing.T) {
	for _, policy := range exact {
		p := newPool(t, config(policy, 1, 1, 1))
		pickAtOnce(t, p, 30, 100, succeed)
		for _, e := range p.Status().Endpoints {
			if e.Assigned != 1000 || e.InFlight != 0 {
				t.Errorf("%s: endpoint %s: %d assigned, %d in flight, want 1000 and 0", policy, e.Name, e.Assigned, e.InFlight)
			}
		}
	}
}

func TestRoundRobinKeepsItsTurnAcrossRemoval(t *testing.T) {
	p := newPool(t, config("round_robin", 1, 1, 1))
	got := picks(t, p, 2)
	if !p.Remove("b") || p.Remove("b") {
		t.Fatal("b was not removed exactly once")
	}
	if got += picks(t, p, 4); got != "abcaca" {
		t.Errorf("picks %s, want abcaca", got)
	}
}

func TestRemovalDuringARequest(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		p := newPool(t, config(policy, 1, 1))
		held := pick(t, p)
		p.Remove("a")
		held.Done(balance.Failure)
		if got := picks(t, p, 3); got != "bbb" {
			t.Errorf("picks %s, want bbb", got)
		}
	})
}

func TestEmptyPoolPicksNothing(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		removed := newPool(t, config(policy, 1, 1))
		removed.Remove("a")
		removed.Remove("b")
		ineligible := newPool(t, config(policy, 1, 1))
		ineligible.SetEligible("a", false)
		ineligible.SetEligible("b", false)
		for name, p := range map[string]*balance.Pool{
			"all removed": removed, "none eligible": ineligible,
			"all weights 0": newPool(t, config(policy, 0, 0)), "no endpoints": newPool(t, config(policy)),
		} {
			if _, err := p.Pick(t.Context()); !errors.Is(err, balance.ErrNoEligible) {
				t.Errorf("%s: pick: %v, want ErrNoEligible", name, err)
			}
			for _, e := range p.Status().Endpoints {
				if e.Assigned != 0 || e.Eligible {
					t.Errorf("%s: %+v, want nothing assigned, nothing eligible", name, e)
				}
			}
		}
	})
}

func TestAbsenceFreezesState(t *testing.T) {
	for _, tt := range []struct {
		policy              string
		before, away, after string
	}{
		{"smooth_weighted", "aab", "ccccbcb", "aacaabaaacaaba"},
		{"weighted", "aaa", "bcbcbcb", "caabcaaaaabcaa"}, // a has 2 left of its turn
		{"round_robin", "abc", "bcbcbcb", "cabcabcabcabca"},
	} {
		t.Run(tt.policy, func(t *testing.T) {
			p := newPool(t, config(tt.policy, 5, 1, 1))
			got := picks(t, p, 3)
			if !p.SetEligible("a", false) {
				t.Fatal("a is not in the pool")
			}
			frozen := endpoint(t, p, "a").CurrentWeight
			// The sum of the weights of the members that stayed does not change
			// either.
			var rest strings.Builder
			for range 7 {
				one := pick(t, p)
				rest.WriteString(one.Endpoint.Name)
				one.Done(balance.Success)
				if now := endpoint(t, p, "a").CurrentWeight; now != frozen {
					t.Fatalf("a's current weight went from %d to %d while it was away", frozen, now)
				}
			}
			p.SetEligible("a", true)
			if after := picks(t, p, 14); got != tt.before || rest.String() != tt.away || after != tt.after {
				t.Errorf("picks %s, %s, %s; want %s, %s, %s", got, rest.String(), after, tt.before, tt.away, tt.after)
			}
		})
	}
}

func TestMembershipChangeResetsCurrentWeights(t *testing.T) {
	for _, policy := range []string{"weighted", "smooth_weighted"} {
		p := newPool(t, config(policy, 5, 1, 1))
		picks(t, p, 2)
		p.Remove("c")
		if got := fmt.Sprint(current(p)); got != "[0 0]" {
			t.Errorf("%s: current weights %s after a removal, want [0 0]", policy, got)
		}
	}
}

func TestHugeWeights(t *testing.T) {
	for _, policy := range []string{"weighted", "smooth_weighted"} {
		p := newPool(t, config(policy, math.MaxInt32, 1))
		if got := picks(t, p, 1000); got != strings.Repeat("a", 1000) {
			t.Errorf("%s: b was picked within 1000 of 2^31 picks", policy)
		}
	}
	everyBackend(t, func(t *testing.T, b backend) {
		if got := names(t, b.open(t, config("least_assigned", math.MaxInt32, 1)), 100, true); got != "ab"+strings.Repeat("a", 98) {
			t.Errorf("least_assigned picks %s, want b once", got)
		}
		if got := names(t, b.open(t, config("least_in_flight", math.MaxInt32, 1)), 100, false); got != "ab"+strings.Repeat("a", 98) {
			t.Errorf("least_in_flight picks %s of those that are held, want b once", got)
		}
	})
}

func TestDoneCountsOnce(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		p := newPool(t, config(policy, 1))
		first, second := pick(t, p), pick(t, p)
		duplicate := first
		if n := endpoint(t, p, "a").InFlight; n != 2 {
			t.Fatalf("%d in flight, want 2", n)
		}
		first.Done(balance.Success)
		first.Done(balance.Failure)
		duplicate.Done(balance.Failure)
		if n := endpoint(t, p, "a").InFlight; n != 1 {
			t.Errorf("%d in flight after three Dones of one pick, want 1", n)
		}
		third := pick(t, p) // may reuse first's ticket
		first.Done(balance.Failure)
		if n := endpoint(t, p, "a").InFlight; n != 2 {
			t.Errorf("%d in flight, want 2: an old pick ended a new one", n)
		}
		second.Done(balance.Success)
		third.Done(balance.Success)
		balance.Pick{}.Done(balance.Success)
		if n := endpoint(t, p, "a").InFlight; n != 0 {
			t.Errorf("%d in flight, want 0", n)
		}
	})
}

func TestEveryOutcomeReleasesThePick(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		p := newPool(t, config(policy, 3, 1, 2))
		pickAtOnce(t, p, 4, 2500, anyhow)
		var assigned int64
		for _, e := range p.Status().Endpoints {
			assigned += e.Assigned
			if e.InFlight != 0 {
				t.Errorf("endpoint %s: %d in flight, want 0", e.Name, e.InFlight)
			}
		}
		if assigned != 10000 {
			t.Errorf("%d assigned, want 10000", assigned)
		}
	})
}

func TestPickOther(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		p := newPool(t, config(policy, 1, 1, 0))
		for range 5 {
			got, err := p.PickOther(t.Context(), "a")
			if err != nil || got.Endpoint.Name != "b" {
				t.Fatalf("other than a: %v, %v; want b", got.Endpoint, err)
			}
			got.Done(balance.Success)
		}
		if _, err := newPool(t, config(policy, 1)).PickOther(t.Context(), "a"); !errors.Is(err, balance.ErrNoEligible) {
			t.Errorf("other than the only one: %v, want ErrNoEligible", err)
		}
	})
}

func TestRotate(t *testing.T) {
	p := newPool(t, config("smooth_weighted", 5, 1, 1))
	if err := p.Rotate(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if got := picks(t, p, 7); got != "bacaaaa" {
		t.Errorf("picks %s, want the sequence from its third on: bacaaaa", got)
	}
	if n := endpoint(t, p, "a").Assigned; n != 5 {
		t.Errorf("a has %d assigned, want 5: rotating assigns nothing", n)
	}
	if err := newPool(t, config("weighted")).Rotate(t.Context(), 3); err != nil {
		t.Errorf("rotate an empty pool: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		change func(c *balance.Config)
		want   []string // parts of the message
	}{
		{func(c *balance.Config) { c.Name = "" }, []string{"name", `""`}},
		{func(c *balance.Config) { c.Name = "a/b" }, []string{"name", `"a/b"`}},
		{func(c *balance.Config) { c.Policy = "fastest" }, []string{"pools[test].policy", `"fastest"`, "round_robin"}},
		{func(c *balance.Config) { c.State = "redis" }, []string{"pools[test].state: redis:"}},
		{func(c *balance.Config) { c.State = "disk" }, []string{"pools[test].state", `"disk"`}},
		{func(c *balance.Config) { c.MaxEjected = 1.5 }, []string{"pools[test].max_ejected: 1.5:"}},
		{func(c *balance.Config) { c.MaxEjected = math.NaN() }, []string{"pools[test].max_ejected: NaN:"}},
		{func(c *balance.Config) { c.SlowStart = -time.Second }, []string{"pools[test].slow_start: -1s:"}},
		{func(c *balance.Config) { c.Lease = -1 }, []string{"pools[test].lease"}},
		{func(c *balance.Config) { c.KeepCount = -1 }, []string{"pools[test].keep_count"}},
		{func(c *balance.Config) { c.Health.MaxFails = -1 }, []string{"pools[test].health.max_fails: -1:"}},
		{func(c *balance.Config) { c.Health.FailTimeout = 0 }, []string{"pools[test].health.fail_timeout: 0s:"}},
		{func(c *balance.Config) { c.Health.Probe = "health" }, []string{"pools[test].health.probe", `"health"`}},
		{func(c *balance.Config) { c.Health.Probe = "/health?of=a b" }, []string{"health.probe", `" " must be percent-encoded`}},
		{func(c *balance.Config) { c.Health.Probe = "/health?of=ü" }, []string{"health.probe", "must be percent-encoded"}},
		{func(c *balance.Config) { c.Health.Probe = "/health#all" }, []string{"health.probe", `"#" must be percent-encoded`}},
		{func(c *balance.Config) { c.Health.Probe, c.Health.ProbeInterval = "/", 0 }, []string{"health.probe_interval: 0s"}},
		{func(c *balance.Config) { c.Health.Probe, c.Health.ProbeInterval = "/", 1 }, []string{"health.probe_interval: 1ns", "100ms to 24h"}},
		{func(c *balance.Config) { c.Health.ProbeInterval = 99 * time.Millisecond }, []string{"health.probe_interval: 99ms"}},
		{func(c *balance.Config) { c.Health.FailTimeout = 1 }, []string{"health.fail_timeout: 1ns", "100ms to 24h"}},
		{func(c *balance.Config) { c.Lease = 1 }, []string{"pools[test].lease: 1ns"}},
		{func(c *balance.Config) {
			for i := range balance.MaxEndpoints {
				c.Endpoints = append(c.Endpoints, balance.EndpointConfig{Name: fmt.Sprint("e", i), URL: "http://h", Weight: 1})
			}
		}, []string{"pools[test].endpoints: 1002: a pool has at most 1000"}},
		{func(c *balance.Config) { c.Endpoints[1].Name = "a" }, []string{"pools[test].endpoints: a:"}},
		{func(c *balance.Config) { c.Health.FailStatuses = []int{503, 399} }, []string{"pools[test].health.fail_statuses: 399: must be a status from 400 to 599"}},
		{func(c *balance.Config) { c.Health.FailStatuses = []int{600} }, []string{"pools[test].health.fail_statuses: 600:"}},
		{func(c *balance.Config) { c.Health.FailStatuses = []int{503, 502, 503} }, []string{"pools[test].health.fail_statuses: 503: is there twice"}},
		{func(c *balance.Config) { c.Endpoints[1].Name = "" }, []string{"pools[test].endpoints[1].name", `""`}},
		{func(c *balance.Config) { c.Endpoints[0].Weight = -1 }, []string{"pools[test].endpoints[a].weight: -1:"}},
		{func(c *balance.Config) { c.Endpoints[0].Weight = math.MaxInt32 + 1 }, []string{"endpoints[a].weight: 2147483648:"}},
		{func(c *balance.Config) { c.Endpoints[0].URL = "ftp://x" }, []string{"endpoints[a].url", `"ftp://x"`}},
		{func(c *balance.Config) { c.Endpoints[0].URL = "http://" }, []string{"endpoints[a].url", "no host"}},
		{func(c *balance.Config) { c.Endpoints[0].URL = "http://a b" }, []string{"endpoints[a].url", `"http://a b"`}},
		{func(c *balance.Config) { c.Endpoints[0].URL = "http://x/?q" }, []string{"endpoints[a].url", "query"}},
		{func(c *balance.Config) { c.Endpoints[0].URL = "http://u:secret@x" }, []string{"endpoints[a].url", "headers"}},
	} {
		t.Run(strings.Join(tt.want, " "), func(t *testing.T) {
			cfg := config("smooth_weighted", 1, 1)
			tt.change(&cfg)
			_, err := balance.New(cfg, nil)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q shows a password or has several lines", err)
			}
		})
	}
}

// pickAtOnce has workers pick, each so many times, and end what they picked. A
// pick's number n is the sum of its worker's and its own.
func pickAtOnce(t *testing.T, p *balance.Pool, workers, each int, end func(n int, got balance.Pick)) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				got, err := p.Pick(t.Context())
				if err != nil {
					t.Errorf("pick: %v", err)
					return
				}
				end(w+i, got)
			}
		})
	}
	wg.Wait()
}

func succeed(_ int, got balance.Pick) { got.Done(balance.Success) }

// anyhow is the end of a load that succeeds, is cancelled, panics or fails.
func anyhow(n int, got balance.Pick) {
	defer func() { _ = recover() }() // for the load that panics
	defer got.Done(balance.Failure)
	switch n % 4 {
	case 0:
		got.Done(balance.Success)
	case 1:
		got.Done(balance.Cancelled)
	case 2:
		panic("load")
	}
}
