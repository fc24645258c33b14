package balance_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
)

// everyPlace runs a case for each policy in this process, on virtual time, and
// for each policy that can be shared, on Redis.
func everyPlace(t *testing.T, f func(t *testing.T, policy string, b backend)) {
	everyPolicy(t, func(t *testing.T, policy string) {
		if policy == "least_assigned" || policy == "least_in_flight" {
			everyBackend(t, func(t *testing.T, b backend) { f(t, policy, b) })
			return
		}
		synctest.Test(t, func(t *testing.T) { f(t, policy, backend{open: newPool}) })
	})
}

// failOnly makes requests to these endpoints fail and all others succeed, until
// each of these endpoints is failing.
func failOnly(t *testing.T, p *balance.Pool, names string) {
	t.Helper()
	for range 200 {
		left := false
		for _, name := range names {
			left = left || healthy(t, p, string(name))
		}
		if !left {
			return
		}
		got := pick(t, p)
		if strings.Contains(names, got.Endpoint.Name) {
			got.Done(balance.Failure)
		} else {
			got.Done(balance.Success)
		}
	}
	t.Fatalf("after 200 picks one of %s is still healthy: %+v", names, p.Status().Endpoints)
}

// succeedOn lets the next request to this endpoint succeed. Picks before it are
// cancelled.
func succeedOn(t *testing.T, p *balance.Pool, name string) {
	t.Helper()
	for range 100 {
		got := pick(t, p)
		if got.Endpoint.Name == name {
			got.Done(balance.Success)
			return
		}
		got.Done(balance.Cancelled)
	}
	t.Fatalf("endpoint %s is not among 100 picks: %s", name, reasons(p))
}

// picked is the endpoints that n cancelled picks went to, in the order of their
// names.
func picked(t *testing.T, p *balance.Pool, n int) string {
	t.Helper()
	seen := map[string]bool{}
	for range n {
		got := pick(t, p)
		seen[got.Endpoint.Name] = true
		got.Done(balance.Cancelled)
	}
	all := ""
	for _, e := range p.Status().Endpoints {
		if seen[e.Name] {
			all += e.Name
		}
	}
	return all
}

// reasons is the reason of each endpoint, as one word.
func reasons(p *balance.Pool) string {
	words := map[string]string{
		"": "well", "ejected for another": "out", "ejected until a trial": "trial", "ejected until a probe": "probe",
		"failing, but kept: max_ejected": "kept", "failing, but picked: no endpoint is healthy": "panic",
	}
	var all []string
	for _, e := range p.Status().Endpoints {
		word := "?" + e.Reason
		for start, w := range words {
			if e.Reason == "" && start == "" || start != "" && strings.HasPrefix(e.Reason, start) {
				word = w
			}
		}
		all = append(all, e.Name+":"+word)
	}
	return strings.Join(all, " ")
}

func TestWhileOneEndpointIsHealthyOnlyHealthyOnesArePicked(t *testing.T) {
	everyPlace(t, func(t *testing.T, policy string, b backend) {
		for _, weights := range [][]int{{1, 1, 1}, {5, 3, 1}} { // the share counts endpoints, not weights
			p := b.open(t, config(policy, weights...))
			failOnly(t, p, "ab")
			if got := picked(t, p, 30); got != "c" {
				t.Errorf("weights %v: %s are picked with only c healthy", weights, got)
			}
			if st := p.Status(); st.Panic || st.Panics != 0 || reasons(p) != "a:out b:out c:well" {
				t.Errorf("weights %v: panic %v, %d panic picks, %s", weights, st.Panic, st.Panics, reasons(p))
			}
			failOnly(t, p, "c")
			if got := picked(t, p, 60); got != "abc" {
				t.Errorf("weights %v: only %s are picked with none healthy", weights, got)
			}
			if st := p.Status(); !st.Panic || st.Panics != 60 || reasons(p) != "a:panic b:panic c:panic" {
				t.Errorf("weights %v: panic %v, %d panic picks, %s", weights, st.Panic, st.Panics, reasons(p))
			}
			succeedOn(t, p, "b")
			if p.Status().Panic || picked(t, p, 30) != "b" || reasons(p) != "a:out b:well c:out" {
				t.Errorf("weights %v: with b well again %s are picked: %s", weights, picked(t, p, 30), reasons(p))
			}
		}
	})
}

// A failure in a panic is not a relapse. The endpoints are tried again when
// their first ejection is over, however long the panic was.
func TestPanicMakesNoEjectionLonger(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, config(policy, 1, 1, 1))
			for range 600 { // ten minutes
				fail(t, p, 3)
				time.Sleep(time.Second)
			}
			succeedOn(t, p, "c")
			seen := ""
			for range 6 {
				got := pick(t, p)
				seen += got.Endpoint.Name
				got.Done(balance.Success)
			}
			if !strings.Contains(seen, "a") || !strings.Contains(seen, "b") {
				t.Errorf("picks %s after an outage of all, want a trial of a and b at once", seen)
			}
		})
	})
}

func TestMaxEjectedIsRoundedUpAndKeepsTheOthers(t *testing.T) {
	for _, tt := range []struct {
		share  float64
		n, bad int
		kept   int
		panics bool
	}{
		{1, 1, 1, 0, true}, // a pool's only endpoint is still picked
		{0.5, 1, 1, 0, true},
		{1, 3, 2, 0, false},
		{1, 3, 3, 0, true},
		{0.33, 3, 1, 0, false}, // one, not none
		{0.33, 3, 2, 1, false},
		{0.33, 3, 3, 2, true},
		{0.01, 3, 1, 0, false},
		{0.5, 3, 2, 0, false}, // two
		{0.5, 2, 2, 1, true},
		{0, 3, 1, 1, false}, // none
		{0, 3, 3, 3, true},
		{0.29, 100, 30, 1, false}, // 0.29 × 100 is less than 29 in floating point
		{0.07, 100, 8, 1, false},  // and 0.07 × 100 more than 7
	} {
		t.Run(fmt.Sprintf("%v of %d, %d bad", tt.share, tt.n, tt.bad), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config("round_robin")
				for i := range tt.n {
					cfg.Endpoints = append(cfg.Endpoints, balance.EndpointConfig{Name: fmt.Sprintf("e%03d", i), URL: "http://test", Weight: 1})
				}
				cfg.MaxEjected = tt.share
				p := newPool(t, cfg)
				bad := map[string]bool{}
				for _, e := range cfg.Endpoints[:tt.bad] {
					bad[e.Name] = true
				}
				for range 4 * tt.n {
					got := pick(t, p)
					if bad[got.Endpoint.Name] {
						got.Done(balance.Failure)
					} else {
						got.Done(balance.Success)
					}
				}
				before := p.Status()
				kept, failing := 0, 0
				for _, e := range before.Endpoints {
					if strings.HasPrefix(e.Reason, "failing, but kept: max_ejected") {
						kept++
					}
					if !e.Healthy {
						failing++
					}
				}
				wantKept, wantPicked := tt.kept, tt.n-tt.bad+tt.kept
				if tt.panics {
					wantKept, wantPicked = 0, tt.n // the panic is the only reason: max_ejected keeps no endpoint
				}
				if before.Panic != tt.panics || kept != wantKept || failing != tt.bad {
					t.Errorf("panic %v, %d kept, %d failing; want %v, %d, %d", before.Panic, kept, failing, tt.panics, wantKept, tt.bad)
				}
				seen := map[string]bool{}
				for range 2 * tt.n {
					got := pick(t, p)
					seen[got.Endpoint.Name] = true
					got.Done(balance.Cancelled)
				}
				if len(seen) != wantPicked {
					t.Errorf("%d endpoints are picked, want %d", len(seen), wantPicked)
				}
				if n := p.Status().Panics - before.Panics; tt.panics != (n == int64(2*tt.n)) || !tt.panics && n != 0 {
					t.Errorf("%d of %d picks are counted as made in panic", n, 2*tt.n)
				}
			})
		})
	}
}

// oneOutOneKept is a pool of four that may eject one: b is out, and a, which has
// failed later, is kept.
func oneOutOneKept(t *testing.T, policy string) *balance.Pool {
	t.Helper()
	cfg := config(policy, 1, 1, 1, 1)
	cfg.MaxEjected = 0.25
	p := newPool(t, cfg)
	failOnly(t, p, "b")
	time.Sleep(time.Second)
	failOnly(t, p, "a")
	return p
}

// The endpoints that began to fail first are out. When one of them recovers,
// another takes its place.
func TestAnEndpointThatRecoversMakesRoomForAFailingOne(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			p := oneOutOneKept(t, policy)
			if got := reasons(p); got != "a:kept b:out c:well d:well" || picked(t, p, 40) != "acd" {
				t.Fatalf("%s, and %s are picked", got, picked(t, p, 40))
			}
			time.Sleep(longestEjection)
			succeedOn(t, p, "b")
			if got := reasons(p); got != "a:trial b:well c:well d:well" {
				t.Errorf("%s after b's recovery, want a in its place", got)
			}
		})
	})
}

// The members change while some are ejected. The number that max_ejected allows
// changes with them, and so does the panic.
func TestMembersChangeWhileOthersAreEjected(t *testing.T) {
	everyPlace(t, func(t *testing.T, policy string, b backend) {
		cfg := config(policy, 1, 1, 1, 1)
		cfg.MaxEjected = 0.5
		p := b.open(t, cfg)
		failOnly(t, p, "abc")
		if got := reasons(p); strings.Count(got, "out") != 2 || strings.Count(got, "kept") != 1 || p.Status().Panic {
			t.Errorf("%s", got)
		}
		put(t, p, "e", cfg.Endpoints[0].URL) // half of five is three
		if got := reasons(p); got != "a:out b:out c:out d:well e:well" {
			t.Errorf("%s with e", got)
		}
		remove(t, p, "d")
		remove(t, p, "e")
		if !p.Status().Panic || picked(t, p, 60) != "abc" {
			t.Errorf("no panic without the healthy ones: %s", reasons(p))
		}
		put(t, p, "f", cfg.Endpoints[0].URL)
		if p.Status().Panic || !healthy(t, p, "f") {
			t.Errorf("panic with a new endpoint: %s", reasons(p))
		}
		no := false
		change(t, p, "f", balance.EndpointChange{Eligible: &no})
		if !p.Status().Panic || strings.Contains(picked(t, p, 30), "f") {
			t.Errorf("no panic with the healthy one taken out by the operator: %s", reasons(p))
		}
	})
}

// An endpoint that comes back slowly is still the only healthy one.
func TestSlowStartIsNoReasonToPickAFailingOne(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(policy, 1, 1, 1)
			cfg.SlowStart = time.Hour
			cfg.Health.FailTimeout = time.Hour
			p := newPool(t, cfg)
			failOnly(t, p, "abc")
			succeedOn(t, p, "b")
			if got := picked(t, p, 50); got != "b" {
				t.Errorf("%s are picked while b starts slowly: %s", got, reasons(p))
			}
		})
	})
}

// With probes no request is a trial, and a long outage delays nothing: an
// endpoint is back with the first good probe after fail_timeout.
func TestAProbeBringsAnEndpointBackHoweverLongItWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("round_robin", 1, 1)
		cfg.Health.Probe = "/health"
		p := newPool(t, cfg)
		sick := newSwitch(true)
		p.StartProbes(sick.probe("http://b.test"))
		failOnly(t, p, "b")
		time.Sleep(time.Hour)
		synctest.Wait()
		if reasons(p) != "a:well b:probe" || picked(t, p, 10) != "a" {
			t.Errorf("%s", reasons(p))
		}
		sick.Store(false)
		time.Sleep(cfg.Health.ProbeInterval + cfg.Health.ProbeInterval/10)
		synctest.Wait()
		if reasons(p) != "a:well b:well" {
			t.Errorf("%s an interval after b recovered", reasons(p))
		}
	})
}

// sickness is set while an endpoint is sick.
type sickness struct{ atomic.Bool }

func newSwitch(on bool) *sickness {
	s := new(sickness)
	s.Store(on)
	return s
}

// probe fails for URLs with this prefix while the endpoint is sick.
func (s *sickness) probe(start string) balance.Prober {
	return func(_ context.Context, url string) error {
		if s.Load() && strings.HasPrefix(url, start) {
			return errors.New("sick")
		}
		return nil
	}
}

// Only failures in a row count, of probes as of requests.
func TestAGoodProbeBetweenBadOnesForgivesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("round_robin", 1, 1)
		cfg.Health.Probe = "/health"
		p := newPool(t, cfg)
		probes := 0
		p.StartProbes(func(_ context.Context, url string) error {
			if !strings.HasPrefix(url, "http://b.test") {
				return nil
			}
			if probes++; probes%3 == 0 { // two bad probes, one good
				return nil
			}
			return errors.New("sick")
		})
		time.Sleep(20 * cfg.Health.ProbeInterval)
		synctest.Wait()
		if probes < 15 || !healthy(t, p, "b") {
			t.Errorf("after %d probes, never three bad ones in a row: %s", probes, reasons(p))
		}
	})
}

// A failed trial leaves ejected endpoints ejected and kept endpoints kept. A
// kept endpoint gets several requests at a time.
func TestAFailedTrialChangesNoOtherEndpoint(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			p := oneOutOneKept(t, policy)
			time.Sleep(longestEjection)
			count := map[string]int{}
			var held []balance.Pick
			for range 16 {
				one := pick(t, p)
				count[one.Endpoint.Name]++
				held = append(held, one)
			}
			if count["a"] < 2 || count["b"] != 1 {
				t.Errorf("of 16 requests at a time a, kept, has %d, and b, on trial, has %d; want several, and one", count["a"], count["b"])
			}
			for _, one := range held {
				if one.Endpoint.Name == "b" {
					one.Done(balance.Failure)
				} else {
					one.Done(balance.Cancelled)
				}
			}
			if got := reasons(p); got != "a:kept b:out c:well d:well" {
				t.Errorf("%s after b's trial has failed", got)
			}
		})
	})
}

func TestAPoolWithoutEligibleEndpointsDoesNotPanic(t *testing.T) {
	for _, weights := range [][]int{{}, {0, 0}} {
		if st := newPool(t, config("round_robin", weights...)).Status(); st.Panic {
			t.Errorf("weights %v: panic", weights)
		}
	}
}

// Where only failing endpoints are probed, a healthy endpoint is not probed,
// and a failing one only when its ejection is over.
func TestOnlyFailingEndpointsAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("round_robin", 1, 1)
		cfg.Health.Probe, cfg.Health.ProbeInterval = "/health", time.Second
		p, err := balance.Open(cfg, balance.Options{ProbeFailing: true})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var asked atomic.Int64
		p.StartProbes(func(_ context.Context, url string) error {
			if url != "http://b.test:80/health" {
				t.Errorf("probe of %s", url)
			}
			asked.Add(1)
			return nil
		})
		time.Sleep(time.Minute)
		failOnly(t, p, "b")
		time.Sleep(shortestEjection - 10*time.Millisecond)
		if n := asked.Load(); n != 0 {
			t.Errorf("%d probes while all are well, or b's ejection lasts", n)
		}
		time.Sleep(longestEjection - shortestEjection + 2*time.Second)
		if n := asked.Load(); n != 1 || !healthy(t, p, "b") {
			t.Errorf("%d probes, and %s; want one, which brought b back", n, reasons(p))
		}
	})
}

// A request to a kept endpoint is no trial, even while others are on trial: its
// failure delays nothing.
func TestARequestToAKeptEndpointIsNoTrial(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			p := oneOutOneKept(t, policy)
			time.Sleep(longestEjection)
			for range 20 { // b's trial is due, and each time it is cancelled
				got := pick(t, p)
				if got.Endpoint.Name == "a" {
					got.Done(balance.Failure)
					continue
				}
				got.Done(balance.Cancelled)
			}
			succeedOn(t, p, "b")
			if got := reasons(p); got != "a:trial b:well c:well d:well" {
				t.Errorf("%s after b's recovery, want a's trial to be due", got)
			}
		})
	})
}

// A request from before an endpoint's recovery says nothing about the endpoint.
func TestALateFailureDoesNotEjectARecoveredEndpoint(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(policy, 1)
			cfg.Health.MaxFails = 1
			p := newPool(t, cfg)
			failOnly(t, p, "a")
			late := pick(t, p)
			succeedOn(t, p, "a")
			if !healthy(t, p, "a") {
				t.Fatalf("a request succeeded: %s", reasons(p))
			}
			late.Done(balance.Failure)
			if !healthy(t, p, "a") {
				t.Errorf("a request from before that failed afterwards: %s", reasons(p))
			}
			pick(t, p).Done(balance.Failure)
			if healthy(t, p, "a") {
				t.Errorf("a request failed: %s", reasons(p))
			}
		})
	})
}

// A good probe ends an ejection only after its time.
func TestAGoodProbeDoesNotShortenAnEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("round_robin", 1, 1)
		cfg.Health.Probe, cfg.Health.ProbeInterval = "/health", time.Second
		p := newPool(t, cfg)
		p.StartProbes(func(context.Context, string) error { return nil })
		failOnly(t, p, "b")
		time.Sleep(cfg.Health.FailTimeout * 7 / 10)
		synctest.Wait()
		if got := reasons(p); got != "a:well b:out" || picked(t, p, 20) != "a" {
			t.Errorf("with good probes before its time is over: %s", got)
		}
		time.Sleep(longestEjection)
		synctest.Wait()
		if got := reasons(p); got != "a:well b:well" {
			t.Errorf("with good probes when its time is over: %s", got)
		}
	})
}
