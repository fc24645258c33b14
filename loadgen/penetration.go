package loadgen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// penetration: a flood of keys that do not exist, beside clients of a hot set.
func penetration(ctx context.Context, s *stage) error {
	flood, hot := int64(100_000), int64(1000)
	if s.cfg.Count > 0 {
		flood = s.cfg.Count
		hot = max(10, flood/100)
	}
	popular := func(r *rand.Rand) picker {
		z := newZipf(1.1, hot)
		return &ranked{prefix: s.prefix + "hot-", rank: func() int64 { return z.rank(r) }}
	}
	fill := load{keys: newInTurn(s.prefix+"hot-", hot), concurrency: min(8, s.cfg.Concurrency), count: hot}
	if _, err := s.load(ctx, "fill", fill); err != nil {
		return err
	}
	half := max(1, s.cfg.Concurrency/2)
	hits := load{keys: popular, concurrency: half, count: flood}
	alone, err := s.load(ctx, "hot set alone", hits)
	if err != nil {
		return err
	}
	s.noErrors("hot set alone", alone)

	missing := load{keys: newInTurn(s.prefix+"missing-", flood), concurrency: half, count: flood}
	s.say("hot set beside the flood")
	both, err := runTogether(ctx, s.config(hits), s.config(missing))
	if err != nil {
		return err
	}
	beside, flooded := both[0], both[1]
	s.add("hot set beside the flood", beside)
	s.add("the flood", flooded)
	s.noErrors("hot set beside the flood", beside)
	a, b := 100*ratio(alone), 100*ratio(beside)
	s.check(b >= a-1, "hit ratio of the hot set", "as without the flood, or 1 point less", "%.2f %%, without %.2f %%", b, a)
	refused := flooded.ErrorsByCode["overloaded"]
	s.check(flooded.NotFound+refused == flooded.Requests, "answers to the flood", "404, or 503 overloaded", "%d not found, errors: %s",
		flooded.NotFound, totalOf(flooded.Errors, flooded.ErrorsByCode))
	if err := s.negativeBudget(ctx); err != nil {
		return err
	}
	return s.sameMissing(ctx)
}

func ratio(r *Result) float64 {
	if r.HitRatio == nil {
		return 0
	}
	return *r.HitRatio
}

// negativeBudget checks the nodes' bytes for missing keys after the flood.
func (s *stage) negativeBudget(ctx context.Context) error {
	c, err := s.cfg.client()
	if err != nil {
		return err
	}
	defer c.Close()
	members, err := c.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.State == "down" {
			continue
		}
		b, err := c.BooksOf(ctx, m.URL)
		if err != nil {
			return err
		}
		s.check(b.NegativeBytes <= b.NegativeMaxBytes && b.Bytes <= b.MaxBytes, m.ID+": bytes for missing keys",
			fmt.Sprintf("at most %d", b.NegativeMaxBytes), "%d, and %d of %d in all", b.NegativeBytes, b.Bytes, b.MaxBytes)
	}
	return nil
}

// sameMissing reads a few missing keys again and again.
func (s *stage) sameMissing(ctx context.Context) error {
	const keys, rounds = 20, 50
	begun := time.Now()
	prefix := s.prefix + "missing-again-"
	r, err := s.load(ctx, "a few missing keys, again and again", load{keys: newInTurn(prefix, keys), concurrency: 10, count: keys * rounds})
	if err != nil {
		return err
	}
	var loads, most int64
	for i := range keys {
		n, err := s.loadsOf(ctx, fmt.Sprint(prefix, i))
		if err != nil {
			return err
		}
		loads += n
		most = max(most, n)
	}
	// Missing keys are remembered for the group's negative_ttl, by default 5s.
	// The check allows for a load every second.
	allowed := int64(time.Since(begun)/time.Second) + 1
	s.check(most <= allowed, "the same missing keys: loads of one", fmt.Sprintf("at most %d, one a second", allowed), "%d; %d for %d requests", most, loads, r.Requests)
	return nil
}
