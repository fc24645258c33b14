package balance_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
)

// A fail_timeout of 10 s lasts 8 to 12 s, doubled 16 to 24 s.
const (
	longestEjection  = 12 * time.Second
	shortestEjection = 8 * time.Second
)

// fail makes n requests to the pool fail.
func fail(t *testing.T, p *balance.Pool, n int) {
	t.Helper()
	for range n {
		pick(t, p).Done(balance.Failure)
	}
}

// failOn fails the next picks of one endpoint. All other picks succeed.
func failOn(t *testing.T, p *balance.Pool, name string, n int) {
	t.Helper()
	for range 100 {
		got := pick(t, p)
		if got.Endpoint.Name != name {
			got.Done(balance.Success)
			continue
		}
		got.Done(balance.Failure)
		if n--; n == 0 {
			return
		}
	}
	t.Fatalf("endpoint %s was not picked", name)
}

func healthy(t *testing.T, p *balance.Pool, name string) bool {
	t.Helper()
	return endpoint(t, p, name).Healthy
}

func TestFailuresInARowEject(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, config(policy, 1, 1, 1))
			failOn(t, p, "b", 2)
			picks(t, p, 3) // b succeeds between its failures
			failOn(t, p, "b", 2)
			if !healthy(t, p, "b") {
				t.Fatal("b was ejected though a success came between its failures")
			}
			failOn(t, p, "b", 1)
			if healthy(t, p, "b") {
				t.Fatal("b is still there after three failures in a row")
			}
			if got := picks(t, p, 6); strings.Contains(got, "b") {
				t.Errorf("picks %s while b is ejected", got)
			}
			if st := endpoint(t, p, "b"); !st.Eligible || !strings.Contains(st.Reason, "ejected for another") {
				t.Errorf("b is %+v", st)
			}

			time.Sleep(longestEjection)
			trial := pickNamed(t, p, "b", 3)
			if got := picks(t, p, 6); strings.Contains(got, "b") {
				t.Errorf("picks %s while b's one trial is under way", got)
			}
			trial.Done(balance.Cancelled)
			trial = pickNamed(t, p, "b", 3)
			trial.Done(balance.Success)
			if !healthy(t, p, "b") || !strings.Contains(picks(t, p, 3), "b") {
				t.Error("b is not back after its trial")
			}
		})
	})
}

// pickNamed picks until it gets this endpoint, within n picks.
func pickNamed(t *testing.T, p *balance.Pool, name string, n int) balance.Pick {
	t.Helper()
	for range n {
		got := pick(t, p)
		if got.Endpoint.Name == name {
			return got
		}
		got.Done(balance.Success)
	}
	t.Fatalf("endpoint %s not among %d picks", name, n)
	return balance.Pick{}
}

func TestRelapsesDoubleTheEjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config("round_robin", 1, 1))
		failOn(t, p, "b", 3)
		for _, times := range []time.Duration{1, 2, 4, 8, 16, 32, 32} {
			time.Sleep(shortestEjection*times - time.Millisecond)
			if got := picks(t, p, 4); got != "aaaa" {
				t.Fatalf("picks %s before %d times fail_timeout", got, times)
			}
			time.Sleep((longestEjection-shortestEjection)*times + time.Millisecond)
			failOn(t, p, "b", 1) // its trial, which must be due by now
		}
		time.Sleep(longestEjection * 32)
		pickNamed(t, p, "b", 4).Done(balance.Success)
		time.Sleep(longestEjection * 32) // back for as long as it was out: the relapse is forgiven
		failOn(t, p, "b", 3)
		time.Sleep(longestEjection)
		pickNamed(t, p, "b", 4).Done(balance.Success)
	})
}

func TestPanicNeverPicksTheIneligible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config("smooth_weighted", 1, 1, 0, 1))
		p.SetEligible("d", false)
		fail(t, p, 6)
		if !p.Status().Panic {
			t.Fatal("no panic though all eligible endpoints fail")
		}
		if got := picks(t, p, 1); got != "a" && got != "b" {
			t.Errorf("picked %s in panic", got)
		}
	})
}

func TestSuccessEndsPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config("round_robin", 1))
		fail(t, p, 3)
		if healthy(t, p, "a") || !p.Status().Panic {
			t.Fatalf("%+v, want an unhealthy endpoint and panic", p.Status())
		}
		picks(t, p, 1)
		if !healthy(t, p, "a") || p.Status().Panic {
			t.Errorf("%+v, want it healthy after a success", p.Status())
		}
	})
}

func TestLateOutcomesAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config("round_robin", 1, 1))
		early := pickNamed(t, p, "b", 2)
		late := pickNamed(t, p, "b", 2)
		failOn(t, p, "b", 3)
		early.Done(balance.Success) // from before b's ejection
		if healthy(t, p, "b") {
			t.Error("a success from before the ejection ended it")
		}
		time.Sleep(longestEjection)
		late.Done(balance.Failure)
		if got := pickNamed(t, p, "b", 2); got.Endpoint.Name == "b" {
			got.Done(balance.Success) // the earlier failure has not doubled the ejection
		}
	})
}

func TestNeverEjects(t *testing.T) {
	cfg := config("round_robin", 1, 1)
	cfg.Health.MaxFails = 0
	p := newPool(t, cfg)
	fail(t, p, 100)
	if !healthy(t, p, "a") || !healthy(t, p, "b") {
		t.Error("max_fails 0 ejected an endpoint")
	}
}

// b fails within 1 ms, the others take 100 ms. b gets its first failures, and
// then only trials, although it is always idle.
func TestAnEndpointThatFailsFastGetsOnlyTrials(t *testing.T) {
	everyPolicy(t, func(t *testing.T, policy string) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, config(policy, 1, 1, 1))
			var toB, all atomic.Int64
			var wg sync.WaitGroup
			end := time.Now().Add(35 * time.Second)
			for range 8 {
				wg.Go(func() {
					for time.Now().Before(end) {
						got, err := p.Pick(t.Context())
						if err != nil {
							t.Errorf("pick: %v", err)
							return
						}
						all.Add(1)
						if got.Endpoint.Name == "b" {
							toB.Add(1)
							time.Sleep(time.Millisecond)
							got.Done(balance.Failure)
							continue
						}
						time.Sleep(100 * time.Millisecond)
						got.Done(balance.Success)
					}
				})
			}
			wg.Wait()
			// At most 8 requests are in flight when b is ejected; its trials
			// follow after 8–12 s and 16–24 s more.
			if toB.Load() < 3 || toB.Load() > 8+3 || all.Load() < 2000 {
				t.Errorf("b got %d of %d requests, want its first failures and two trials", toB.Load(), all.Load())
			}
		})
	})
}

func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("round_robin", 1, 1)
		cfg.Health.Probe = "/health"
		cfg.Endpoints[1].URL += "/base/"
		p, err := balance.New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		var sick atomic.Bool
		var asked atomic.Int64
		probe := func(_ context.Context, url string) error {
			if url != "http://a.test:80/health" && url != "http://b.test:80/base/health" {
				t.Errorf("probe of %s", url)
			}
			asked.Add(1)
			if sick.Load() && strings.Contains(url, "b.test") {
				return errors.New("sick")
			}
			return nil
		}
		p.StartProbes(probe)
		p.StartProbes(probe) // the second call does nothing
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := asked.Load(); n < 6 || n > 10 {
			t.Errorf("%d probes of two endpoints in 20 s at 5 s each", n)
		}
		sick.Store(true)
		time.Sleep(17 * time.Second)
		synctest.Wait()
		if healthy(t, p, "b") || !healthy(t, p, "a") {
			t.Fatalf("three failed probes: %+v, want b ejected", p.Status())
		}
		// An ejected endpoint gets only probes, however long it is out.
		time.Sleep(200 * time.Second)
		if got := picks(t, p, 6); got != "aaaaaa" {
			t.Errorf("picks %s while b's probes fail", got)
		}
		sick.Store(false)
		time.Sleep(longestEjection*32 + 6*time.Second)
		synctest.Wait()
		if !healthy(t, p, "b") {
			t.Errorf("%+v, want b back after good probes", p.Status())
		}
		// Good probes do not hide failing requests.
		failOn(t, p, "b", 2)
		time.Sleep(6 * time.Second)
		failOn(t, p, "b", 1)
		if healthy(t, p, "b") {
			t.Error("a good probe between failing requests kept b in")
		}
		p.Remove("b")
		p.Close()
		p.Close()
		p.StartProbes(probe) // after Close this starts nothing
		before := asked.Load()
		time.Sleep(time.Minute)
		if asked.Load() != before {
			t.Error("probes go on after Close")
		}
	})
}

func TestCloseEndsARunningProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("round_robin", 1)
		cfg.Health.Probe = "/health"
		p, err := balance.New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan struct{}, 1)
		p.StartProbes(func(ctx context.Context, _ string) error {
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		<-started
		p.Close()
		if !healthy(t, p, "a") {
			t.Error("the probe that Close cut off was counted")
		}
	})
}
