package loadgen

import (
	"context"
	"fmt"
	"time"
)

// expiry is a little more than the lifetime of one second that the scenarios
// make the origin set.
const expiry = 1100 * time.Millisecond

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the scenario was interrupted: %w", ctx.Err())
	}
}

// breakdown: one hot key expires again and again while all clients want it.
// First a stale value may be served meanwhile, then not.
func breakdown(ctx context.Context, s *stage) error {
	for _, row := range []struct {
		name, control string
		stale         bool
	}{
		{"stale allowed", "max-age=1, stale-while-revalidate=3600", true},
		{"stale forbidden", "max-age=1, must-revalidate", false},
	} {
		if err := s.hotKey(ctx, row.name, row.control, row.stale); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) hotKey(ctx context.Context, name, control string, stale bool) error {
	key := s.prefix + name[:len("stale a")]
	if err := s.behave(ctx, map[string]any{"latency": "50ms", "cache_control": control}); err != nil {
		return err
	}
	begun := time.Now()
	if _, err := s.load(ctx, "fill", s.at(key, 1)); err != nil {
		return err
	}
	rate := s.cfg.Rate
	if rate == 0 {
		rate = 5000
	}
	l := load{keys: one(key), concurrency: max(s.cfg.Concurrency, 64), duration: 4 * time.Second, rate: rate}
	if s.cfg.Duration > 0 {
		l.duration = s.cfg.Duration
	}
	r, err := s.load(ctx, fmt.Sprintf("hot key at %g a second, %s", rate, name), l)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	k, err := s.origin.keyStats(ctx, key)
	if err != nil {
		return err
	}
	// A lifetime is a second less the group's jitter, by default a tenth. The
	// check allows for half a second.
	most := int64(took/(500*time.Millisecond)) + 1
	s.within(r, k.Loads, 2, most, name+": loads", fmt.Sprintf("one for each time it expired: 2 to %d", most))
	s.within(r, k.Peak, 1, 1, name+": loads at once", "1")
	if stale {
		s.within(r, r.waited(), 0, 0, name+": reads that waited", fmt.Sprintf("0 of %d", r.Gets))
	}
	s.noErrors(name, r)
	return nil
}
