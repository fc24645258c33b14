package loadgen

import (
	"context"
	"fmt"
	"time"
)

// lifetime is what the avalanche's values get: long enough for all to be
// loaded and asked for again before the first expires a second time.
const lifetime = 10 * time.Second

// avalanche: many keys are loaded together, with one TTL, and expire while all
// of them are asked for again and again.
func avalanche(ctx context.Context, s *stage) error {
	keys := int64(10_000)
	if s.cfg.Count > 0 {
		keys = s.cfg.Count
	}
	if err := s.behave(ctx, map[string]any{"cache_control": fmt.Sprintf("max-age=%d, stale-while-revalidate=3600", int(lifetime.Seconds()))}); err != nil {
		return err
	}
	all := newInTurn(s.prefix, keys)
	// With no more at once than a pool's max_loads lets through.
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
	// What is refreshed does not expire a second time.
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
	// All have expired by now. Those are left that nobody could ask for since,
	// and those whose refresh was more than max_loads: who asks next tries again.
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
	// Who is not heard for a moment is stood in for. That load is marked, and
	// the owner, when it is heard again, may need one of its own.
	most := min(standIns, keys/100)
	s.check(waited <= most, "reads that waited", fmt.Sprintf("at most %d, for stand-ins made %d loads", most, standIns), "%d", waited)
	s.check(busy.loads >= keys && busy.loads <= keys+waited+standIns, "refreshes", fmt.Sprintf("one for each of the %d keys", keys), "%d", busy.loads)
	mean := float64(keys) / float64(spread)
	s.check(busy.windows >= minWindows && busy.peak <= 3*mean, "the origin's busiest tenth of a second",
		fmt.Sprintf("of %d or more with loads, and at most 3 times the %.1f that %d would have each", minWindows, mean, spread),
		"%.0f loads, of %d with loads (%.1f each)", busy.peak, busy.windows, float64(busy.loads)/float64(max(1, busy.windows)))
	return nil
}

// maxRounds is how often each key is asked for once more, at most.
const maxRounds = 10

// spread is over how many tenths of a second the default jitter, a tenth of
// the lifetime, spreads what was loaded in one moment. The mean is that of this
// time: what there really was depends on how evenly a machine lets clients ask.
const spread = int64(lifetime / 10 / (100 * time.Millisecond))

// minWindows is in how many of them there must be loads at least.
const minWindows = spread / 2

// busy is what the origin saw in the windows in which it saw anything. All are
// asked for all the time, so a window without a load is one in which a busy
// machine let nobody run: what comes after it is what both would have had.
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
