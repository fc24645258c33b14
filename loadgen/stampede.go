package loadgen

import (
	"context"
	"fmt"
)

// stampede: many clients want one key at the same moment. The checks are the
// rows of the table of bench/stampede, which also has the times beside nginx
// and Varnish.
func stampede(ctx context.Context, s *stage) error {
	crowd, few := 200, 50
	if s.cfg.Count > 0 {
		crowd = int(s.cfg.Count)
		few = max(2, crowd/4)
	}
	if err := s.cold(ctx, crowd); err != nil {
		return err
	}
	if err := s.failing(ctx, few); err != nil {
		return err
	}
	if err := s.noStore(ctx, few); err != nil {
		return err
	}
	return s.expired(ctx, crowd)
}

func (s *stage) cold(ctx context.Context, clients int) error {
	key := s.prefix + "cold"
	if err := s.behave(ctx, map[string]any{"latency": "50ms"}); err != nil {
		return err
	}
	r, err := s.load(ctx, fmt.Sprintf("cold key, %d clients", clients), s.at(key, clients))
	if err != nil {
		return err
	}
	loads, err := s.loadsOf(ctx, key)
	s.within(r, loads, 1, 1, "cold key: loads", "1")
	s.noErrors("cold key", r)
	return err
}

func (s *stage) failing(ctx context.Context, clients int) error {
	key := s.prefix + "failing"
	if err := s.behave(ctx, map[string]any{"latency": "50ms", "error_rate": 1}); err != nil {
		return err
	}
	r, err := s.load(ctx, fmt.Sprintf("failing origin, %d clients", clients), s.at(key, clients))
	if err != nil {
		return err
	}
	loads, err := s.loadsOf(ctx, key)
	s.within(r, loads, 1, 2, "failing origin: loads", "1 or 2")
	s.check(r.ErrorsByCode["origin-failed"] == r.Requests, "failing origin: clients that got the error", fmt.Sprint(r.Requests), "%s", counts(r.ErrorsByCode))
	return err
}

func (s *stage) noStore(ctx context.Context, clients int) error {
	key := s.prefix + "no-store"
	if err := s.behave(ctx, map[string]any{"latency": "50ms", "cache_control": "no-store"}); err != nil {
		return err
	}
	r, err := s.load(ctx, fmt.Sprintf("no-store, %d clients", clients), s.at(key, clients))
	if err != nil {
		return err
	}
	loads, err := s.loadsOf(ctx, key)
	// A client that arrives after a flight has ended starts another. On a busy
	// machine the clients do not all arrive at once.
	s.check(r.oneForEachFlight(loads) && loads*2 <= r.Requests, "no-store: loads", "one for each flight, and shared", "%d loads, %d flights, %d retries, %d answers shared one",
		loads, r.Answers["load"]+r.Behind["load"], r.Retries, r.Answers["joined"]+r.Behind["joined"])
	s.noErrors("no-store", r)
	return err
}

// oneForEachFlight reports whether loads that are not stored were one for each
// flight. A strayed client may have started a flight that it does not report.
func (r *Result) oneForEachFlight(loads int64) bool {
	told := r.Answers["load"] + r.Behind["load"]
	return told <= loads && loads <= told+r.strayed()
}

func (s *stage) expired(ctx context.Context, clients int) error {
	key := s.prefix + "expired"
	control := map[string]any{"cache_control": "max-age=1, stale-while-revalidate=3600"}
	if err := s.behave(ctx, control); err != nil {
		return err
	}
	if _, err := s.load(ctx, "fill", s.at(key, 1)); err != nil {
		return err
	}
	if err := pause(ctx, expiry); err != nil {
		return err
	}
	control["latency"], control["cache_control"] = "50ms", "max-age=3600"
	if err := s.behave(ctx, control); err != nil {
		return err
	}
	r, err := s.load(ctx, fmt.Sprintf("expired key, stale allowed, %d clients", clients), s.at(key, clients))
	if err != nil {
		return err
	}
	loads, err := s.loadsOf(ctx, key)
	s.within(r, loads, 2, 2, "expired key: loads", "2, the first one included")
	s.within(r, r.waited(), 0, 0, "expired key: clients that waited", "0")
	s.noErrors("expired key", r)
	return err
}
