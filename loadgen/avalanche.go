package loadgen

import (
	"context"
	"fmt"
	"time"
)

// lifetime is the TTL of the avalanche's values. It is long enough to load all
// of them and read them again before the first expires a second time.
const lifetime = 10 * time.Second

// avalanche: many keys are loaded together with one TTL, and expire while all
// of them are read again and again.
func avalanche(ctx context.Context, s *stage) error {
	keys := int64(10_000)
	if s.cfg.Count > 0 {
		keys = s.cfg.Count
	}
	if err := s.behave(ctx, map[string]any{"cache_control": fmt.Sprintf("max-age=%d, stale-while-revalidate=3600", int(lifetime.Seconds()))}); err != nil {
		return err
	}
	all := newInTurn(s.prefix, keys)
	// The loads at once stay below a pool's max_loads.
	r, err := s.load(ctx, "fill", load{keys: all, concurrency: min(32, max(1, s.cfg.Concurrency)), count: keys})
	if err != nil {
		return err
	}
	s.noErrors("fill", r)
	standIns := r.standIns
	before, err := s.origin.windows(ctx)
	if err != nil {
		return err
	}
	// Refreshed values do not expire a second time.
	if err := s.behave(ctx, nil); err != nil {
		return err
	}
	again := load{keys: all, concurrency: s.cfg.Concurrency, duration: lifetime + time.Second, rate: s.cfg.Rate}
	if r, err = s.load(ctx, "all keys, again and again", again); err != nil {
		return err
	}
	s.noErrors("again", r)
	waited := r.waited()
	standIns += r.standIns
	// All values have expired by now. Some keys are still not refreshed: no
	// client has read them since, or max_loads stopped the refresh. The next
	// read tries again.
	again.duration, again.count = 0, keys
	var busy busy
	for round := 0; round < maxRounds && busy.loads < keys; round++ {
		if r, err = s.load(ctx, "each key once more", again); err != nil {
			return err
		}
		s.noErrors("once more", r)
		waited += r.waited()
		standIns += r.standIns
		after, err := s.origin.windows(ctx)
		if err != nil {
			return err
		}
		busy = since(after, before.Now)
	}
	// A stand-in loads for an owner that is silent for a moment. Such a load is
	// marked, and the owner may make one of its own afterwards.
	most := min(standIns, keys/100)
	s.check(waited <= most, "reads that waited", fmt.Sprintf("at most %d, for stand-ins made %d loads", most, standIns), "%d", waited)
	s.check(busy.loads >= keys && busy.loads <= keys+waited+standIns, "refreshes", fmt.Sprintf("one for each of the %d keys", keys), "%d", busy.loads)
	mean := float64(keys) / float64(spread)
	s.check(busy.windows >= minWindows && busy.peak <= 3*mean, "the origin's busiest tenth of a second",
		fmt.Sprintf("of %d or more with loads, and at most 3 times the %.1f that %d would have each", minWindows, mean, spread),
		"%.0f loads, of %d with loads (%.1f each)", busy.peak, busy.windows, float64(busy.loads)/float64(max(1, busy.windows)))
	return nil
}

// maxRounds bounds how often each key is read once more.
const maxRounds = 10

// spread is the number of tenths of a second over which the default jitter, a
// tenth of the lifetime, spreads values that were loaded in one moment. The
// expected mean is over these. The real spread depends on how evenly the
// machine lets clients send.
const spread = int64(lifetime / 10 / (100 * time.Millisecond))

// minWindows is the least number of windows that must have loads.
const minWindows = spread / 2

// busy is what the origin saw in the windows with loads. All keys are read all
// the time, so a window without a load means that a busy machine let nothing
// run: the next window then has the loads of both.
type busy struct {
	loads, windows int64
	peak           float64
}

// since is what the origin saw after a window.
func since(w windows, after int64) (b busy) {
	last := int64(0)
	for _, x := range w.Windows {
		if x.Number <= after {
			continue
		}
		held := int64(1)
		if last > 0 {
			held = x.Number - last
		}
		last = x.Number
		b.loads += x.Loads
		b.windows++
		b.peak = max(b.peak, float64(x.Loads)/float64(held))
	}
	return b
}
