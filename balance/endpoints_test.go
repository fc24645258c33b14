package balance_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
)

// openLocal opens a pool with local state and these hosts allowed.
func openLocal(t testing.TB, cfg balance.Config, hosts ...string) *balance.Pool {
	t.Helper()
	p, err := balance.Open(cfg, balance.Options{AllowedHosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func change(t testing.TB, p *balance.Pool, name string, c balance.EndpointChange) (created bool) {
	t.Helper()
	created, err := p.PutEndpoint(t.Context(), name, c)
	if err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
	return created
}

func TestEndpointsComeAndGo(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		p := openLocal(t, config(policy, 1, 1), "c.test")
		url := "http://c.test"
		if !change(t, p, "c", balance.EndpointChange{URL: &url}) {
			t.Error("c is not new")
		}
		if got := picks(t, p, 3); !strings.Contains(got, "c") {
			t.Errorf("picks %s, want c among them", got)
		}
		no, yes, none := false, true, 0
		if change(t, p, "c", balance.EndpointChange{Eligible: &no}) {
			t.Error("c is new again")
		}
		if got := picks(t, p, 6); strings.Contains(got, "c") {
			t.Errorf("picks %s, c is not eligible", got)
		}
		change(t, p, "c", balance.EndpointChange{Eligible: &yes, Weight: &none})
		if e := endpoint(t, p, "c"); e.Eligible || e.Reason != "weight is 0" {
			t.Errorf("c is %+v", e)
		}
		if got := names(t, p, 6, true); strings.Contains(got, "c") {
			t.Errorf("picks %s, c has no weight", got)
		}
		remove(t, p, "a")
		remove(t, p, "a")
		if got := names(t, p, 3, true); got != "bbb" {
			t.Errorf("picks %s, want bbb", got)
		}
		remove(t, p, "b")
		if _, err := p.Pick(t.Context()); !errors.Is(err, balance.ErrNoEligible) {
			t.Errorf("pick without endpoints: %v", err)
		}
	})
}

func TestWeightChangesAtRunTime(t *testing.T) {
	for policy, want := range map[string]string{
		"weighted": "aaaaabcaaaaabc", "smooth_weighted": "aabacaaaabacaa", "round_robin": "cabcabcabcabca",
	} {
		p := newPool(t, config(policy, 1, 1, 1))
		picks(t, p, 2)
		weight := 5
		change(t, p, "a", balance.EndpointChange{Weight: &weight})
		if policy == "weighted" { // it is c's turn
			picks(t, p, 1)
		}
		if got := picks(t, p, 14); got != want {
			t.Errorf("%s: picks %s, want %s", policy, got, want)
		}
	}
}

func TestBadChanges(t *testing.T) {
	p := newPool(t, config("smooth_weighted", 1))
	text := func(s string) *string { return &s }
	number := func(n int) *int { return &n }
	for _, tt := range []struct {
		name   string
		change balance.EndpointChange
		want   string
	}{
		{"b", balance.EndpointChange{}, "a new endpoint needs a url"},
		{"b", balance.EndpointChange{URL: text("ftp://h")}, `url: "ftp://h": must begin with http:// or https://`},
		{"b", balance.EndpointChange{URL: text("http://u:secret@h")}, `url: "http://u:xxxxx@h": must not hold a user or password: use headers`},
		{"a/b", balance.EndpointChange{URL: text("http://h")}, "an endpoint's name must be letters"},
		{"a", balance.EndpointChange{Weight: number(-1)}, "weight: -1: must be a whole number from 0"},
		{"a", balance.EndpointChange{Weight: number(math.MaxInt32 + 1)}, "weight: 2147483648: must be"},
	} {
		var bad *balance.ChangeError
		if _, err := p.PutEndpoint(t.Context(), tt.name, tt.change); !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %+v: %v, want %s", tt.name, tt.change, err, tt.want)
		}
	}
	if n := len(p.Status().Endpoints); n != 1 {
		t.Errorf("%d endpoints after bad changes", n)
	}
}

func TestOnlyAllowedHostsAreAdmitted(t *testing.T) {
	for _, tt := range []struct {
		url     string
		allowed []string
		want    bool
	}{
		{"http://x.test", nil, false},
		{"http://a.test:80/other/path", nil, true}, // the host of a configured endpoint
		{"https://a.test:80", nil, false},
		{"http://a.test:81", nil, false},
		{"http://x.test:8080", []string{"x.test"}, true},
		{"http://X.Test:8080", []string{"x.tesT"}, true},
		{"http://x.test:8080", []string{"x.test:8080"}, true},
		{"http://x.test:8081", []string{"x.test:8080"}, false},
		{"http://x.test", []string{"https://x.test"}, false},
		{"https://x.test", []string{"https://x.test"}, true},
		{"http://a.x.test", []string{"*.x.test"}, true},
		{"http://x.test", []string{"*.x.test"}, false},
		{"http://evilx.test", []string{"*.x.test"}, false},
		{"http://x.test.evil", []string{"x.test", "*.x.test"}, false},
		{"http://[::1]:80", []string{"[::1]"}, true},
		{"http://127.0.0.1:8102", []string{"localhost", "127.0.0.1"}, true},
		{"http://bücher.test:8080", []string{"BÜCHER.test"}, true},
		{"http://bücher.test:8080", []string{"xn--bcher-kva.test:8080"}, true},
		{"http://xn--bcher-kva.test", []string{"http://bücher.test"}, true},
		{"http://www.bücher.test", []string{"*.bücher.test"}, true},
		{"http://１２７.0.0.1", []string{"127.0.0.1"}, true}, // it is that host
		{"http://bücher.test", []string{"bucher.test"}, false},
	} {
		p := openLocal(t, config("round_robin", 1), tt.allowed...)
		put(t, p, "new", tt.url)
		e := endpoint(t, p, "new")
		if e.Eligible != tt.want || !tt.want && !strings.HasSuffix(e.Reason, "is not in auth.allowed_origin_hosts") {
			t.Errorf("%s with %q: %+v, want eligible: %v", tt.url, tt.allowed, e, tt.want)
		}
		got := names(t, p, 4, true)
		p.SetEligible("a", false)
		if _, err := p.Pick(t.Context()); strings.Contains(got, "new") != tt.want && (err == nil) != tt.want {
			t.Errorf("%s with %q: picks %s, then %v", tt.url, tt.allowed, got, err)
		}
	}
}

func TestAllowedHostsAreChecked(t *testing.T) {
	for rule, ok := range map[string]bool{
		"h": true, "h:80": true, "*.h": true, "https://h": true, "https://*.h:443": true, "[::1]:80": true, "127.0.0.1": true,
		"bücher.test": true, "*.bücher.test:80": true, "-ü-.test": false,
		"": false, "a/b": false, "ftp://h": false, "u@h": false, "h?x": false, "a.*.h": false, "*": false, "h:x": false,
		"h:0": false, "h:99999": false, "h:": false, "a..b": false, "h<x": false, "*.": false, "[::1]:0": false, "h:65535": true, "a_b.test": true,
	} {
		if why := balance.CheckAllowedHost(rule); (why == "") != ok {
			t.Errorf("%q: %q", rule, why)
		}
	}
}

// A new endpoint is in no set until two probes in a row were good. An endpoint
// whose host is not allowed is not even probed.
func TestCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("round_robin", 1)
		cfg.Health.Probe = "/up"
		p := openLocal(t, cfg, "new.test")
		var sick atomic.Bool
		asked := map[string]*atomic.Int64{"http://a.test:80/up": {}, "http://new.test/up": {}, "http://barred.test/up": {}}
		put(t, p, "early", "http://new.test") // before the probes start
		p.StartProbes(func(_ context.Context, url string) error {
			asked[url].Add(1)
			if sick.Load() && strings.Contains(url, "new.test") {
				return errors.New("sick")
			}
			return nil
		})
		put(t, p, "barred", "http://barred.test")
		if e := endpoint(t, p, "a"); !e.Eligible {
			t.Errorf("the configured endpoint is %+v: it needs no probes at the start", e)
		}
		if e := endpoint(t, p, "early"); e.Eligible || e.Reason != "a candidate: 0 of 2 good probes" {
			t.Errorf("early is %+v", e)
		}
		if got := picks(t, p, 4); got != "aaaa" {
			t.Errorf("picks %s, want a only", got)
		}
		time.Sleep(6 * time.Second) // time for one good probe
		sick.Store(true)
		time.Sleep(5 * time.Second)
		if e := endpoint(t, p, "early"); e.Eligible || !e.Healthy || e.Reason != "a candidate: 0 of 2 good probes" {
			t.Errorf("early is %+v after a bad probe", e)
		}
		sick.Store(false)
		time.Sleep(12 * time.Second)
		if e := endpoint(t, p, "early"); !e.Eligible || e.Reason != "" {
			t.Errorf("early is %+v after good probes", e)
		}
		if got := names(t, p, 4, true); !strings.Contains(got, "early") || strings.Contains(got, "barred") {
			t.Errorf("picks %s, want early and not barred", got)
		}
		if n := asked["http://barred.test/up"].Load(); n != 0 {
			t.Errorf("%d probes of a host that is not allowed", n)
		}
		// Another URL is another candidate.
		put(t, p, "early", "http://new.test:80/v2")
		if e := endpoint(t, p, "early"); e.Eligible || !strings.HasPrefix(e.Reason, "a candidate") {
			t.Errorf("early is %+v at its new URL", e)
		}
		asked["http://new.test:80/v2/up"] = &atomic.Int64{}
		remove(t, p, "early")
		remove(t, p, "barred")
	})
}

// slow_start gives a returning endpoint its share little by little. At the
// start of the process it does nothing.
func TestSlowStart(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(policy, 1, 1)
			cfg.SlowStart = 100 * time.Second
			p := newPool(t, cfg)
			// share is b's part of the picks in this time.
			share := func(over time.Duration) float64 {
				n := 0
				for range 1000 {
					time.Sleep(over / 1000)
					if names(t, p, 1, true) == "b" {
						n++
					}
				}
				return float64(n) / 1000
			}
			if got := share(10 * time.Second); got != 0.5 {
				t.Errorf("b got %v at the start, want 0.5", got)
			}
			p.SetEligible("b", false)
			share(time.Second)
			p.SetEligible("b", true)
			if e := endpoint(t, p, "b"); !e.Eligible || !e.Healthy || e.Reason != "slow start: 0 % of its share" {
				t.Errorf("b is %+v", e)
			}
			// b loses the fraction of its turns that is left of slow_start. A
			// policy that takes turns gives a lost turn to the others; one that
			// counts may give it to b again. So b's share is between f/2 and
			// f/(1+f), and five standard deviations.
			for tenth := range 10 {
				least, most := float64(tenth)/20, float64(tenth+1)/10
				if got := share(10 * time.Second); got < least-0.08 || got > most/(1+most)+0.08 {
					t.Errorf("b got %v in tenth %d of its slow start, want %v to %v", got, tenth, least, most/(1+most))
				}
			}
			if got := share(time.Second); math.Abs(got-0.5) > 0.002 {
				t.Errorf("b got %v after its slow start, want 0.5", got)
			}
			failOn(t, p, "b", 3)
			time.Sleep(longestEjection)
			pickNamed(t, p, "b", 4).Done(balance.Success)
			if e := endpoint(t, p, "b"); !e.Healthy || !strings.HasPrefix(e.Reason, "slow start") {
				t.Errorf("b is %+v after its trial", e)
			}
			p.SetEligible("a", false)
			if got := names(t, p, 5, true); got != "bbbbb" {
				t.Errorf("picks %s: the only one is not held back", got)
			}
		})
	})
}

// Assignments to callers outside last one lease, under every policy.
func TestAssignmentsOfEveryPolicy(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(policy, 1)
			cfg.Health.MaxFails = 1
			p := newPool(t, cfg)
			first, second := assign(t, p), assign(t, p)
			time.Sleep(cfg.Lease / 2)
			if _, err := p.Renew(t.Context(), second.ID); err != nil {
				t.Errorf("renew: %v", err)
			}
			time.Sleep(cfg.Lease / 2)
			if e := endpoint(t, p, "a"); e.Assigned != 2 || e.InFlight != 1 || !e.Healthy {
				t.Errorf("%+v: want the renewed one in flight, and nothing learned from the other", e)
			}
			if _, err := p.Renew(t.Context(), first.ID); !errors.Is(err, balance.ErrUnknownAssignment) {
				t.Errorf("renewal of a lapsed one: %v", err)
			}
			if err := p.Complete(t.Context(), second.ID, balance.Failure); err != nil {
				t.Error(err)
			}
			complete(t, p, second.ID)
			if e := endpoint(t, p, "a"); e.InFlight != 0 || e.Healthy {
				t.Errorf("%+v: want nothing in flight, and one failure", e)
			}
		})
	})
}

// A worker that dies with an endpoint's trial does not keep the endpoint out.
func TestAbandonedTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config("round_robin", 1, 1))
		failOn(t, p, "b", 3)
		time.Sleep(longestEjection)
		var trial balance.Assignment
		for trial.Endpoint.Name != "b" {
			trial = assign(t, p)
		}
		if got := names(t, p, 4, true); got != "aaaa" {
			t.Errorf("picks %s during the trial", got)
		}
		time.Sleep(30 * time.Second)
		if got := names(t, p, 4, true); !strings.Contains(got, "b") {
			t.Errorf("picks %s: b gets no other trial", got)
		}
	})
}

// A change of the URL keeps the other settings.
func TestAnotherURLKeepsWeightAndEligible(t *testing.T) {
	p := newPool(t, config("smooth_weighted", 5, 3))
	no := false
	change(t, p, "a", balance.EndpointChange{Eligible: &no})
	url := "http://a.test:80/v2"
	change(t, p, "a", balance.EndpointChange{URL: &url})
	change(t, p, "b", balance.EndpointChange{URL: &url})
	if e := endpoint(t, p, "a"); e.URL != url || e.Weight != 5 || e.Eligible {
		t.Errorf("a is %+v", e)
	}
	if e := endpoint(t, p, "b"); e.URL != url || e.Weight != 3 || !e.Eligible {
		t.Errorf("b is %+v", e)
	}
}

func TestARemovedEndpointIsNoLongerProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("round_robin", 1, 1)
		cfg.Health.Probe = "/up"
		p := newPool(t, cfg)
		var toB atomic.Int64
		p.StartProbes(func(_ context.Context, url string) error {
			if strings.HasPrefix(url, "http://b.test:80/") {
				toB.Add(1)
			}
			return nil
		})
		time.Sleep(time.Minute)
		before := toB.Load()
		remove(t, p, "b")
		time.Sleep(time.Minute)
		if after := toB.Load(); before == 0 || after != before {
			t.Errorf("%d probes of b before its removal, %d after", before, after-before)
		}
	})
}

// The count of a removed endpoint is kept for keep_count, and no longer.
func TestACountIsForgottenAfterKeepCount(t *testing.T) {
	for _, tt := range []struct {
		away time.Duration
		want string
	}{{23 * time.Hour, "bbbbbb"}, {24 * time.Hour, "ababab"}} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, config("least_assigned", 1, 1))
			p.SetEligible("b", false)
			picks(t, p, 20) // all of them a
			remove(t, p, "a")
			p.SetEligible("b", true)
			time.Sleep(tt.away)
			put(t, p, "a", "http://a.test:80")
			if got := picks(t, p, 6); got != tt.want {
				t.Errorf("picks %s with a back after %v, want %s", got, tt.away, tt.want)
			}
		})
	}
}
