package origin

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"kring/cache"
)

const (
	// sayAgain is how long nothing more is said of a reason that has been logged.
	sayAgain = time.Minute
	// maxReasons bounds the reasons that are remembered: a few for each endpoint.
	maxReasons = 256
	// maxCause bounds the text of a try's cause, in bytes: it may quote the origin.
	maxCause = 512
)

// failures logs why loads fail, or needed a second try: each reason of each
// endpoint when it is new, and once a minute while it lasts, with how often it was
// met meanwhile. An origin that is down would fill the log otherwise.
type failures struct {
	log  *slog.Logger
	pool string

	mu       sync.Mutex // guards what follows
	reasons  map[reason]*met
	leftOver int // times that there was no room for another reason
}

// reason is what makes two failures one; the detail names the endpoint, and
// never a key.
type reason struct {
	code    cache.Code
	detail  string
	rescued bool // by a second try
}

type met struct {
	said  time.Time
	quiet int // times since
}

// tried is a try that failed.
type tried struct {
	endpoint string
	err      *cache.Error
}

func newFailures(log *slog.Logger, pool string) *failures {
	return &failures{log: log, pool: pool, reasons: map[reason]*met{}}
}

// say logs a load that failed, or was rescued by its second try, with all tries
// that failed, unless that would be too much. The last of them is the reason. A
// load that was cancelled has not failed.
func (f *failures) say(ctx context.Context, l *cache.Load, tries []tried, rescued bool) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	last := tries[len(tries)-1]
	more, ok := f.new(reason{last.err.Code, last.err.Detail, rescued}, time.Now())
	if !ok {
		return
	}
	message := "load failed"
	if rescued {
		message = "load needed a second try"
	}
	causes := make([]string, len(tries))
	for i, t := range tries {
		causes[i] = t.endpoint + ": " + t.err.Error()
		if len(causes[i]) > maxCause {
			causes[i] = strings.ToValidUTF8(causes[i][:maxCause], "") + "…"
		}
	}
	// The key is escaped as in a URL: its bytes are a client's.
	attrs := []slog.Attr{
		slog.String("pool", f.pool), slog.String("group", l.Key.Group), slog.String("key", url.PathEscape(l.Key.Key)),
		slog.String("endpoint", last.endpoint), slog.String("tries", strings.Join(causes, "; ")), slog.Int("not_logged", more),
	}
	if l.RequestID != "" { // none, of a refresh
		attrs = append(attrs, slog.String("request_id", l.RequestID))
	}
	f.log.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}

// new reports whether a reason is to be logged now, and how often it was met
// since it last was.
func (f *failures) new(r reason, now time.Time) (more int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.reasons[r]
	switch {
	case m == nil:
		if !f.roomLocked(now) {
			f.leftOver++
			return 0, false
		}
		f.reasons[r] = &met{said: now}
	case now.Sub(m.said) < sayAgain:
		m.quiet++
		return 0, false
	default:
		more, m.said, m.quiet = m.quiet, now, 0
	}
	more, f.leftOver = more+f.leftOver, 0
	return more, true
}

// roomLocked forgets what was met long ago if there is no room for another.
func (f *failures) roomLocked(now time.Time) bool {
	if len(f.reasons) < maxReasons {
		return true
	}
	for r, m := range f.reasons {
		if now.Sub(m.said) >= sayAgain {
			f.leftOver += m.quiet
			delete(f.reasons, r)
		}
	}
	return len(f.reasons) < maxReasons
}
