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
	// logAgain is the time between two lines of the same reason.
	logAgain = time.Minute
	// maxReasons bounds the remembered reasons: a few for each endpoint.
	maxReasons = 256
	// maxCause bounds the text of a try's cause in bytes: it may quote the
	// origin.
	maxCause = 512
)

// failures logs why loads fail or needed a second try. It logs each reason of
// each endpoint when it is new, and then once a minute, with the number of
// lines left out. An origin that is down would fill the log otherwise.
type failures struct {
	log     *slog.Logger
	pool    string
	reasons *throttle.Lines[reason]
}

// reason is the identity of a failure. The detail names the endpoint, never a
// key.
type reason struct {
	code    cache.Code
	detail  string
	rescued bool // a second try succeeded
}

// tried is a failed try.
type tried struct {
	endpoint string
	err      *cache.Error
}

func newFailures(log *slog.Logger, pool string) *failures {
	return &failures{log: log, pool: pool, reasons: throttle.New[reason](maxReasons)}
}

// report logs a load that failed, or that its second try rescued, with all
// failed tries, unless the reason was logged within logAgain. The reason is
// that of the last failed try. A cancelled load is not a failure.
func (f *failures) report(ctx context.Context, l *cache.Load, tries []tried, rescued bool) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	last := tries[len(tries)-1]
	notLogged, due := f.reasons.Due(reason{last.err.Code, last.err.Detail, rescued}, logAgain)
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
	// The key is escaped as in a URL, because a client chose its bytes.
	attrs := []slog.Attr{
		slog.String("pool", f.pool), slog.String("group", l.Key.Group), slog.String("key", url.PathEscape(l.Key.Key)),
		slog.String("endpoint", last.endpoint), slog.String("tries", strings.Join(causes, "; ")), slog.Int("not_logged", notLogged),
	}
	if l.RequestID != "" { // a refresh has none
		attrs = append(attrs, slog.String("request_id", l.RequestID))
	}
	f.log.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}
