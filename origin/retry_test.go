package origin_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/node/nodetest"
	"kring/origin"
)

// counting answers with a status and counts the requests.
func counting(t testing.TB, status int, n *atomic.Int64) string {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.WriteHeader(status)
		fmt.Fprint(w, "value")
	}).URL
}

func neverEject(b *balance.Config, _ *origin.Options) { b.Health.MaxFails = 0 }

func TestSecondTry(t *testing.T) {
	unreachable := "http://" + nodetest.FreeAddress(t)
	short := lie(t, sayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"))
	var fine, broken, odd atomic.Int64
	ok, fails := counting(t, 200, &fine), counting(t, 500, &broken)
	redirects := counting(t, 302, &odd)
	for _, tt := range []struct {
		name   string
		urls   []string
		budget float64
		err    *cache.Error // nil: the value, from endpoint b
		sent   int32
	}{
		{"after a 500", []string{fails, ok}, 0.1, nil, 2},
		{"after a refusal", []string{unreachable, ok}, 0.1, nil, 1},
		{"after half a body", []string{short.url, ok}, 0.1, nil, 2},
		{"not after a redirect", []string{redirects, ok}, 0.1, cache.ErrOriginFailed, 1},
		{"not without a budget", []string{fails, ok}, 0, cache.ErrOriginFailed, 1},
		{"not at the same endpoint", []string{fails}, 0.1, cache.ErrOriginFailed, 1},
		{"not twice", []string{fails, fails, ok}, 0.1, cache.ErrOriginFailed, 2},
		{"the second one's error", []string{fails, short.url}, 0.1, cache.ErrOriginBadAnswer, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, "/{key}", tt.urls, neverEject, func(_ *balance.Config, o *origin.Options) { o.Config.RetryBudget = tt.budget })
			r := s.load(t, "k", nil)
			if tt.err != nil {
				r.mustFail(t, tt.err)
			} else if r.mustBe(t, "value"); r.Endpoint != "b" {
				t.Errorf("from endpoint %s, want b", r.Endpoint)
			}
			if r.sent != tt.sent {
				t.Errorf("sent %d, want %d", r.sent, tt.sent)
			}
		})
	}
}

// A slow endpoint gets no second try.
func TestNoSecondTryAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test", "http://b.test"}, piped(t, &dials, func(net.Conn, *http.Request) bool {
			time.Sleep(time.Hour)
			return false
		}))
		r := s.load(t, "k", nil)
		r.mustFail(t, cache.ErrOriginTimeout)
		if dials.Load() != 1 || r.sent != 1 {
			t.Errorf("%d dials, sent %d; want one try", dials.Load(), r.sent)
		}
		time.Sleep(2 * time.Hour)
	})
}

// An endpoint that cannot be reached costs a part of the time, not the load.
func TestSecondTryAfterAConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		answer := func(c net.Conn, _ *http.Request) bool {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
			return true
		}
		s := start(t, "/{key}", []string{"http://hangs.test", "http://b.test"}, piped(t, &dials, answer))
		s.load(t, "k", nil).mustBe(t, "a")

		// When the time is shorter than the connect time-out there is no second
		// try.
		s = start(t, "/{key}", []string{"http://hangs.test", "http://b.test"}, piped(t, &dials, answer))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := s.loadIn(ctx, "k", nil)
		r.mustFail(t, cache.ErrOriginTimeout)
		if r.sent != 0 {
			t.Errorf("sent %d, want 0", r.sent)
		}
	})
}

// A new pool has second tries at once: of many keys loaded together through a
// pool with one sick endpoint, none fails.
func TestASickEndpointFailsNoLoad(t *testing.T) {
	for _, status := range []int{502, 503, 504} {
		var fine, broken atomic.Int64
		s := start(t, "/{key}", []string{counting(t, status, &broken), counting(t, 200, &fine)}, func(b *balance.Config, _ *origin.Options) { b.Health.MaxFails = 3 })
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				if r := s.load(t, fmt.Sprint("key-", i), nil); r.err != nil {
					t.Errorf("key-%d: %v", i, r.err)
				}
			})
		}
		wg.Wait()
		if broken.Load() < 3 || s.healthy("a") || fine.Load() != 60 {
			t.Errorf("%d: %d and %d requests, endpoint a healthy %v; want at least 3, 60, false", status, broken.Load(), fine.Load(), s.healthy("a"))
		}
	}
}

// secondTries makes loads that all fail, and returns how many had a second try.
func (s *setup) secondTries(t testing.TB, loads int) (more int) {
	t.Helper()
	for range loads {
		r := s.load(t, "k", nil)
		r.mustFail(t, cache.ErrOriginFailed)
		more += int(r.sent) - 1
	}
	return more
}

// Ten second tries a second are free, and ten seconds' worth are saved up. A
// share of the loads is added.
func TestRetryBudget(t *testing.T) {
	for _, tt := range []struct {
		share                float64
		first, later, hourly int // second tries of 200 loads: at once; after a second; after an hour
	}{
		{0.1, 100 + 20, 10 + 20, 100 + 20},
		{0.5, 200, 10 + 100, 200},
		{1, 200, 200, 200},
		{0.001, 100, 10, 100},
		{0, 0, 0, 0},
	} {
		t.Run(fmt.Sprint(tt.share), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials atomic.Int64
				s := start(t, "/{key}", []string{"http://a.test", "http://b.test"}, neverEject, func(_ *balance.Config, o *origin.Options) {
					o.Config.RetryBudget = tt.share
				}, piped(t, &dials, func(c net.Conn, _ *http.Request) bool {
					fmt.Fprint(c, "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")
					return true
				}))
				check := func(when string, want int) {
					t.Helper()
					// The count may be off by one: the budget is full when the
					// first load pays in.
					if got := s.secondTries(t, 200); got < want-1 || got > want+1 {
						t.Errorf("%s: 200 loads had %d second tries, want %d", when, got, want)
					}
				}
				check("at first", tt.first)
				time.Sleep(time.Second)
				check("a second later", tt.later)
				time.Sleep(time.Hour)
				check("an hour later", tt.hourly)
			})
		})
	}
}

// A short time pays for a part of a second try, however often the budget is
// asked.
func TestRetryBudgetFillsEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test", "http://b.test"}, neverEject, func(_ *balance.Config, o *origin.Options) {
			o.Config.RetryBudget = 0.001
		}, piped(t, &dials, func(c net.Conn, _ *http.Request) bool {
			fmt.Fprint(c, "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")
			return true
		}))
		s.secondTries(t, 150) // spends the whole budget
		more := 0
		for range 300 {
			time.Sleep(10 * time.Millisecond)
			more += s.secondTries(t, 1)
		}
		if more < 29 || more > 31 {
			t.Errorf("in 3 s of steady failures there were %d second tries, want 30", more)
		}
	})
}

func TestNoEligibleEndpointSendsNothing(t *testing.T) {
	var requests atomic.Int64
	url := counting(t, 200, &requests)
	empty := start(t, "/{key}", nil)
	weightless := start(t, "/{key}", []string{url}, func(b *balance.Config, _ *origin.Options) { b.Endpoints[0].Weight = 0 })
	refused := start(t, "/{key}", []string{url, url})
	refused.pool.SetEligible("a", false)
	refused.pool.SetEligible("b", false)
	removed := start(t, "/{key}", []string{url})
	removed.pool.Remove("a")
	for _, s := range []*setup{empty, weightless, refused, removed} {
		r := s.load(t, "k", nil)
		r.mustFail(t, cache.ErrNoEligibleEndpoint)
		if r.sent != 0 {
			t.Errorf("sent %d, want 0", r.sent)
		}
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests left", requests.Load())
	}
}

// A second try whose endpoint has vanished is not made, and costs no budget.
func TestNoOtherEndpoint(t *testing.T) {
	var requests atomic.Int64
	s := start(t, "/{key}", []string{counting(t, 500, &requests), counting(t, 200, &requests)}, neverEject)
	s.pool.SetEligible("b", false)
	for range 200 { // more than the budget has
		s.load(t, "k", nil).mustFail(t, cache.ErrOriginFailed)
	}
	s.pool.SetEligible("b", true)
	for range 50 {
		s.load(t, "k", nil).mustBe(t, "value") // b's turn, or a second try from a's
	}
}
