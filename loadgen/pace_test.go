package loadgen

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"kring/client"
)

// slowCluster answers at once, but stalls all answers between `from` and `to`
// after its start.
type slowCluster struct {
	begun    time.Time
	from, to time.Duration
}

func (s *slowCluster) wait(ctx context.Context) error {
	at := time.Since(s.begun)
	if at < s.from || at >= s.to {
		return nil
	}
	t := time.NewTimer(s.to - at)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowCluster) GetWith(ctx context.Context, _, _ string, _ client.GetOptions) (*client.Value, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return &client.Value{Meta: client.Meta{Node: "n", CacheStatus: "n; hit; ttl=1"}}, nil
}

func (s *slowCluster) Put(ctx context.Context, _, _ string, _ []byte, _ client.PutOptions) (*client.Written, error) {
	return &client.Written{}, s.wait(ctx)
}

func (s *slowCluster) Delete(ctx context.Context, _, _ string) (client.Meta, error) {
	return client.Meta{}, s.wait(ctx)
}

// loadSlow runs a configuration against a slow cluster in virtual time.
func loadSlow(ctx context.Context, t *testing.T, cfg Config, from, to time.Duration) *Result {
	t.Helper()
	r := &run{cfg: &cfg, spec: keySpec{n: 10}, recorder: newRecorder(cfg.Concurrency)}
	if err := r.load(ctx, &slowCluster{time.Now(), from, to}); err != nil {
		t.Fatal(err)
	}
	return r.result(client.Counters{})
}

// Coordinated omission: with two workers and a stall of one second, a loop that
// waits for answers sees only two slow requests. An open loop charges the stall
// to all requests that were due.
func TestOpenLoopChargesAStallToAllThatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Concurrency, cfg.Rate, cfg.Duration = 2, 100, 3*time.Second
		r := loadSlow(t.Context(), t, cfg, time.Second, 2*time.Second)
		if r.Requests != 300 || r.Unsent != 0 || r.Seconds < 2.98 || r.Seconds > 3 {
			t.Errorf("%d requests in %v s, %d unsent; want 300 in 3 s", r.Requests, r.Seconds, r.Unsent)
		}
		// A third of the requests waited for 0 to 1 s; the median waited for
		// nothing.
		if l := r.Latency; l.P50 > 1 || l.P95 < 840 || l.P95 > 860 || l.P99 < 960 || l.Max < 995 || l.Max > 1001 {
			t.Errorf("latency %+v", l)
		}
		// The two requests in the stall were sent in time, the next one 0.98 s
		// late.
		if l := r.SentLate; l.P50 > 1 || l.P95 < 820 || l.P95 > 840 || l.Max < 970 || l.Max > 990 {
			t.Errorf("sent late %+v", r.SentLate)
		}
	})
}

func TestOpenLoopSaysWhatItCouldNotSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Concurrency, cfg.Rate, cfg.Duration = 2, 100, 3*time.Second
		r := loadSlow(t.Context(), t, cfg, 2*time.Second, 5*time.Second)
		if r.Requests != 202 || r.Unsent != 98 || r.Seconds != 5 {
			t.Errorf("%d requests in %v s, %d unsent; want 202 in 5 s, 98 unsent", r.Requests, r.Seconds, r.Unsent)
		}
	})
}

func TestCountAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Rate, cfg.Count = 50, 101
		r := loadSlow(t.Context(), t, cfg, 0, 0)
		if r.Requests != 101 || r.Seconds != 2 || len(r.Timeline) != 2 {
			t.Errorf("%d requests in %v s, %d points; want 101 in 2 s", r.Requests, r.Seconds, len(r.Timeline))
		}
	})
}

// An interruption ends the run at once. Requests in flight get a moment; one
// that takes longer is neither an answer nor an error.
func TestInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Concurrency, cfg.Rate, cfg.Duration = 4, 10, time.Hour
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10050*time.Millisecond, errors.New("ctrl-c"))
		defer cancel()
		r := loadSlow(ctx, t, cfg, 10*time.Second, 20*time.Second)
		if r.Requests != 100 || r.Errors != 0 || !r.Interrupted || r.Seconds != (10050*time.Millisecond+grace).Seconds() {
			t.Errorf("%d requests, %d errors in %v s, interrupted %v", r.Requests, r.Errors, r.Seconds, r.Interrupted)
		}
	})
}

// A rate of one request in years sends one request, not a flood.
func TestRatesFarBelowOne(t *testing.T) {
	for _, rate := range []float64{0.001, 1e-9, 1e-10, 1e-300, math.SmallestNonzeroFloat64} {
		synctest.Test(t, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Concurrency, cfg.Rate, cfg.Duration = 4, rate, time.Minute
			if r := loadSlow(t.Context(), t, cfg, 0, 0); r.Requests != 1 {
				t.Errorf("%d requests in a minute at %g a second, want 1", r.Requests, rate)
			}
			cfg.Duration = 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if r := loadSlow(ctx, t, cfg, 0, 0); r.Requests != 1 {
				t.Errorf("%d requests until the interruption at %g a second, want 1", r.Requests, rate)
			}
		})
	}
}

// An open loop that keeps its rate until an interruption has reached it. One
// that does not has not, however early the interruption was.
func TestRateOfAnInterruptedRun(t *testing.T) {
	for _, tt := range []struct {
		stall time.Duration
		want  bool
	}{{0, false}, {500 * time.Millisecond, true}} {
		synctest.Test(t, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Concurrency, cfg.Rate, cfg.Duration = 2, 100, time.Hour
			ctx, cancel := context.WithTimeout(t.Context(), 999*time.Millisecond)
			defer cancel()
			r := loadSlow(ctx, t, cfg, time.Second-tt.stall, time.Second)
			if r.tooFew() != tt.want || !r.Interrupted {
				t.Errorf("a stall of %v at the end of a second: %d of 100 requests, interrupted %v, too few %v", tt.stall, r.Requests, r.Interrupted, r.tooFew())
			}
		})
	}
}

func TestShares(t *testing.T) {
	for s, want := range map[string]float64{"5%": 0.05, "0.05": 0.05, "0": 0, "100%": 1, " 1% ": 0.01} {
		if got, err := ParseShare(s); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "-1%", "101%", "2", "NaN"} {
		if got, err := ParseShare(s); err == nil {
			t.Errorf("%q: got %v, want an error", s, got)
		}
	}
}
