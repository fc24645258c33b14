package origin

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"kring/cache"
	"kring/internal/throttle"
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
// endpoint when it is new, and once a minute while it lasts, with how often it
// occurred meanwhile. An origin that is down would fill the log otherwise.
type failures struct {
	log     *slog.Logger
	pool    string
	reasons *throttle.Lines[reason]
}

// reason is what makes two failures one; the detail names the endpoint, and
// never a key.
type reason struct {
	code    cache.Code
	detail  string
	rescued bool // by a second try
}

// tried is a try that failed.
type tried struct {
	endpoint string
	err      *cache.Error
}

func newFailures(log *slog.Logger, pool string) *failures {
	return &failures{log: log, pool: pool, reasons: throttle.New[reason](maxReasons)}
}

// say logs a load that failed, or was rescued by its second try, with all tries
// that failed, unless that would be too much. The last of them is the reason. A
// load that was cancelled has not failed.
func (f *failures) say(ctx context.Context, l *cache.Load, tries []tried, rescued bool) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	last := tries[len(tries)-1]
	notLogged, due := f.reasons.Due(reason{last.err.Code, last.err.Detail, rescued}, sayAgain)
	if !due {
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
		slog.String("endpoint", last.endpoint), slog.String("tries", strings.Join(causes, "; ")), slog.Int("not_logged", notLogged),
	}
	if l.RequestID != "" { // none, of a refresh
		attrs = append(attrs, slog.String("request_id", l.RequestID))
	}
	f.log.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}
