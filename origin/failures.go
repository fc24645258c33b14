package origin

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"kring/cache"
)

const (
	// sayAgain is how long nothing more is said of a reason that has been logged.
	sayAgain = time.Minute
	// maxReasons bounds the reasons that are remembered: a few for each endpoint.
	maxReasons = 256
)

// failures logs why loads fail: each reason of each endpoint when it is new, and
// once a minute while it lasts, with how often it was met meanwhile. An origin
// that is down would fill the log otherwise.
type failures struct {
	log  *slog.Logger
	pool string

	mu      sync.Mutex // guards reasons
	reasons map[reason]*met
}

// reason is what makes two failures one; the detail names the endpoint, and
// never a key.
type reason struct {
	code   cache.Code
	detail string
}

type met struct {
	said  time.Time
	quiet int // times since
}

func newFailures(log *slog.Logger, pool string) *failures {
	return &failures{log: log, pool: pool, reasons: map[reason]*met{}}
}

// say logs a failure of an endpoint, unless that would be too much.
func (f *failures) say(ctx context.Context, endpoint string, err *cache.Error) {
	more, ok := f.new(reason{err.Code, err.Detail}, time.Now())
	if !ok {
		return
	}
	f.log.LogAttrs(ctx, slog.LevelWarn, "load failed", slog.String("pool", f.pool), slog.String("endpoint", endpoint),
		slog.Any("error", err), slog.Int("not_logged", more))
}

// new reports whether one is to be logged now, and how often it was met
// since it last was.
func (f *failures) new(r reason, now time.Time) (more int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.reasons[r]
	switch {
	case m == nil:
		if !f.roomLocked(now) {
			return 0, false
		}
		f.reasons[r] = &met{said: now}
		return 0, true
	case now.Sub(m.said) < sayAgain:
		m.quiet++
		return 0, false
	}
	more, m.said, m.quiet = m.quiet, now, 0
	return more, true
}

// roomLocked forgets what was met long ago if there is no room for another.
func (f *failures) roomLocked(now time.Time) bool {
	if len(f.reasons) < maxReasons {
		return true
	}
	for r, m := range f.reasons {
		if now.Sub(m.said) >= sayAgain {
			delete(f.reasons, r)
		}
	}
	return len(f.reasons) < maxReasons
}
