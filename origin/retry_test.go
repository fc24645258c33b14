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

// counting answers with a status, and counts the requests.
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

// What is slow is not asked twice.
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

// An endpoint that cannot be reached costs its part of the time, not the load.
func TestSecondTryAfterAConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		answer := func(c net.Conn, _ *http.Request) bool {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
			return true
		}
		s := start(t, "/{key}", []string{"http://hangs.test", "http://b.test"}, piped(t, &dials, answer))
		s.load(t, "k", nil).mustBe(t, "a")

		// With less time than connecting may take there is no second try.
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

// Of n loads that all fail, a tenth and a few are tried again, not all.
func TestRetryBudget(t *testing.T) {
	var requests atomic.Int64
	fails := counting(t, 500, &requests)
	s := start(t, "/{key}", []string{fails, fails}, neverEject)
	const loads = 500
	var sent atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range loads / 4 {
				sent.Add(int64(s.load(t, "k", nil).sent))
			}
		})
	}
	wg.Wait()
	// 1 at the start and 1 for each 10 s that this may take on a slow machine.
	if extra := sent.Load() - loads; extra < loads/10 || extra > loads/10+8 || sent.Load() != requests.Load() {
		t.Errorf("%d second tries of %d loads, want a tenth and the first; the origins saw %d of %d requests", extra, loads, requests.Load(), sent.Load())
	}
}

func TestRetryBudgetRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test", "http://b.test"}, neverEject, piped(t, &dials, func(c net.Conn, _ *http.Request) bool {
			fmt.Fprint(c, "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")
			return true
		}))
		tries := func(loads int) (sent int32) {
			for range loads {
				sent += s.load(t, "k", nil).sent
			}
			return sent
		}
		if n := tries(5); n != 6 {
			t.Errorf("5 loads made %d requests, want 6: one second try to begin with", n)
		}
		time.Sleep(10 * time.Second)
		if n := tries(4); n != 5 {
			t.Errorf("4 loads 10 s later made %d requests, want 5", n)
		}
		time.Sleep(time.Hour)
		if n := tries(50); n != 50+10+5 && n != 50+10+4 {
			t.Errorf("50 loads an hour later made %d requests, want 64 or 65: at most 10 are saved up", n)
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

// A second try whose endpoint vanished is not made, and not paid for.
func TestNoOtherEndpoint(t *testing.T) {
	var requests atomic.Int64
	s := start(t, "/{key}", []string{counting(t, 500, &requests), counting(t, 200, &requests)}, neverEject)
	s.pool.SetEligible("b", false)
	for range 3 {
		s.load(t, "k", nil).mustFail(t, cache.ErrOriginFailed)
	}
	s.pool.SetEligible("b", true)
	s.load(t, "k", nil).mustBe(t, "value") // b's turn, or a second try from a's
}
