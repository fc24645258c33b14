package origin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"kring/balance"
	"kring/cache"
	"kring/internal/sockets"
)

const (
	// longest is the deadline of a load whose context has none.
	longest = time.Minute
	// maxDiscard is how much of a 404's body is read in order to keep the
	// connection.
	maxDiscard = 64 << 10
)

// failure says why a try failed.
type failure struct {
	err     *cache.Error
	outcome balance.Outcome // what the pool learns
	retry   bool            // another endpoint may do better
}

func (o *Origin) load(ctx context.Context, t *template, l *cache.Load) (cache.Loaded, error) {
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	default:
		return cache.Loaded{}, cache.ErrOverloaded.With("too many loads are under way in pool " + o.pool.Name())
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longest)
		defer cancel()
	}
	if over(ctx) {
		return cache.Loaded{}, tooLate(ctx)
	}
	o.budget.load()

	target := t.target(l.Key.Key)
	pick, err := o.pool.Pick(ctx)
	switch {
	case err == nil:
	case over(ctx):
		return cache.Loaded{}, tooLate(ctx)
	default:
		return cache.Loaded{}, cache.ErrNoEligibleEndpoint.With("pool " + o.pool.Name() + " has no eligible endpoint").Because(err)
	}
	loaded, fail := o.try(ctx, pick, target, l)
	if fail == nil {
		return loaded, nil
	}
	tries := []tried{{pick.Endpoint.Name, fail.err}}
	defer func() { o.failed.report(ctx, l, tries, fail == nil) }()
	if !fail.retry || over(ctx) || !o.budget.spend() {
		return loaded, fail.err
	}
	other, err := o.pool.PickOther(ctx, pick.Endpoint.Name)
	if err != nil {
		o.budget.refund()
		return loaded, fail.err
	}
	loaded, fail = o.try(ctx, other, target, l)
	if fail != nil {
		tries = append(tries, tried{other.Endpoint.Name, fail.err})
		return loaded, fail.err
	}
	return loaded, nil
}

// try asks one endpoint. In every case, panics included, it ends the pick and
// counts in l.Sent the requests that reached the origin. The result names the
// endpoint, also after a failure.
func (o *Origin) try(ctx context.Context, pick balance.Pick, target string, l *cache.Load) (loaded cache.Loaded, fail *failure) {
	outcome := balance.Cancelled
	defer func() { pick.Done(outcome) }()

	loaded, fail = o.ask(ctx, pick.Endpoint, target, l, l.Previous)
	if fail == nil {
		if outcome = balance.Success; o.pool.Blames(loaded.Status) {
			outcome = balance.Failure // although a status such as 404 is an answer
		}
		return loaded, nil
	}
	outcome = fail.outcome
	return cache.Loaded{Endpoint: pick.Endpoint.Name, Status: loaded.Status}, fail
}

// ask makes one request, which is conditional if there is a previous entry. If
// the answer to that is about another entry, ask makes a second, unconditional
// request.
func (o *Origin) ask(ctx context.Context, e balance.Endpoint, target string, l *cache.Load, previous *cache.Entry) (cache.Loaded, *failure) {
	u, err := balance.ParseEndpointURL(e.URL)
	if err != nil {
		return cache.Loaded{}, &failure{cache.ErrOriginFailed.With("endpoint " + e.Name + " has a bad URL").Because(err), balance.Failure, true}
	}
	request, conditional := o.request(u, target, previous)
	a, err := o.client.exchange(ctx, u, request, &l.Sent)
	if err != nil {
		return cache.Loaded{}, broken(ctx, e.Name, err)
	}
	keep := false
	defer func() {
		if keep && a.reusable() {
			o.client.put(u, a.conn)
			return
		}
		a.abandon()
	}()

	loaded := cache.Loaded{Status: a.StatusCode, Endpoint: e.Name, Freshness: freshness(a.Header, time.Now()), Asked: a.conn.asked}
	switch a.StatusCode {
	case http.StatusOK:
		value, err := a.read(o.maxBody)
		if err != nil {
			return cache.Loaded{}, broken(ctx, e.Name, err)
		}
		loaded.Entry, err = entry(a.Header, value)
		if err != nil {
			return cache.Loaded{}, broken(ctx, e.Name, err)
		}
		keep = true
	case http.StatusNotFound, http.StatusGone:
		// Only the status counts, so the body need not be read to its end. But
		// a broken body makes the whole answer doubtful.
		_, err := a.read(maxDiscard)
		if err != nil && !errors.Is(err, errBodyTooLong) {
			return cache.Loaded{}, broken(ctx, e.Name, err)
		}
		loaded.Entry = &cache.Entry{Negative: true}
		mark(loaded.Entry, a.Header)
		keep = err == nil
	case http.StatusNotModified:
		if !conditional {
			return loaded, o.refused(e.Name, a.Response)
		}
		if err := a.end(); err != nil {
			return cache.Loaded{}, broken(ctx, e.Name, err)
		}
		if !sameTag(kept(a.Header, "Etag"), previous.OriginETag) {
			keep = true
			return o.ask(ctx, e, target, l, nil)
		}
		loaded.NotModified = true
		loaded.ContentType, loaded.OriginETag, loaded.LastModified = kept(a.Header, "Content-Type"), kept(a.Header, "Etag"), kept(a.Header, "Last-Modified")
		var findable bool
		loaded.Tags, findable = tags(a.Header)
		loaded.Freshness.NoStore = loaded.Freshness.NoStore || varies(a.Header) || !findable
		keep = true
	default:
		return loaded, o.refused(e.Name, a.Response)
	}
	return loaded, nil
}

// request builds the bytes of a request, and reports whether it is conditional.
func (o *Origin) request(u *url.URL, target string, previous *cache.Entry) (b []byte, conditional bool) {
	host := o.header.host
	if host == "" {
		host = withoutZone(u.Host)
	}
	var s strings.Builder
	s.WriteString("GET " + strings.TrimSuffix(u.EscapedPath(), "/") + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + o.header.lines)
	if previous != nil && !previous.Negative {
		for _, v := range [...][2]string{{"If-None-Match", previous.OriginETag}, {"If-Modified-Since", previous.LastModified}} {
			if v[1] != "" && httpguts.ValidHeaderFieldValue(v[1]) {
				s.WriteString(v[0] + ": " + v[1] + "\r\n")
				conditional = true
			}
		}
	}
	s.WriteString("\r\n")
	return []byte(s.String()), conditional
}

// withoutZone is a host without the zone of its IPv6 address. A zone has a
// meaning only on this machine (RFC 6874 §4).
func withoutZone(host string) string {
	end := strings.LastIndexByte(host, ']')
	zone := strings.IndexByte(host, '%')
	if zone < 0 || zone > end {
		return host
	}
	return host[:zone] + host[end:]
}

// sameTag reports whether a 304 with the entity tag told may be about the entry
// with the tag had. Only then does it renew the entry (RFC 9111 §4.3.4). Weak
// and strong forms of a tag count as the same: gateways that compress weaken
// the tag in one of the two.
func sameTag(told, had string) bool {
	return told == "" || had == "" || strings.TrimPrefix(told, "W/") == strings.TrimPrefix(had, "W/")
}

// mark sets an entry's tags. It also marks an entry that must not be stored,
// because it depends on more than its key names or because no purge would find
// it.
func mark(e *cache.Entry, h http.Header) {
	var findable bool
	e.Tags, findable = tags(h)
	e.NoStore = varies(h) || !findable
}

// entry makes an entry of a 200. It keeps only the headers that are named here.
func entry(h http.Header, value []byte) (*cache.Entry, error) {
	e := &cache.Entry{
		Value: value, ContentType: kept(h, "Content-Type"), ContentEncoding: kept(h, "Content-Encoding"),
		LastModified: kept(h, "Last-Modified"), OriginETag: kept(h, "Etag"),
	}
	mark(e, h)
	if e.ContentEncoding == "" && h.Get("Content-Encoding") != "" {
		return nil, errors.New("the Content-Encoding of the answer cannot be kept") // the bytes mean nothing without it
	}
	if strings.EqualFold(e.ContentEncoding, "identity") {
		e.ContentEncoding = ""
	}
	if e.ContentType == "" {
		e.ContentType = "application/octet-stream" // as for a PUT without one
	}
	return e, nil
}

// broken makes the failure of an exchange that brought no whole answer.
func broken(ctx context.Context, endpoint string, err error) *failure {
	timeout := errors.Is(err, context.DeadlineExceeded)
	if ne, ok := errors.AsType[net.Error](err); ok {
		timeout = timeout || ne.Timeout()
	}
	_, connecting := errors.AsType[*connectError](err)
	of := func(e *cache.Error, detail string) *cache.Error {
		return e.With("endpoint " + endpoint + " " + detail).Because(err)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &failure{tooLate(ctx), balance.Cancelled, false}
	case connecting && sockets.Shortage(err):
		return &failure{cache.ErrOverloaded.With("this node has no descriptor or port left for a connection").Because(err), balance.Cancelled, false}
	case timeout && connecting:
		return &failure{of(cache.ErrOriginTimeout, "could not be reached in time"), balance.Failure, true}
	case timeout:
		// No second try: a slow origin is not made faster by two requests.
		return &failure{of(cache.ErrOriginTimeout, "did not answer in time"), balance.Failure, false}
	case connecting:
		return &failure{of(cache.ErrOriginFailed, "could not be reached"), balance.Failure, true}
	case errors.Is(err, errHeadTooLong):
		// The key is to blame, as with a 4xx: it mostly has too many tags.
		return &failure{of(cache.ErrOriginBadAnswer, "sent headers that are longer than max_header_bytes"), balance.Cancelled, false}
	case errors.Is(err, errBodyTooLong):
		return &failure{of(cache.ErrOriginBadAnswer, "sent an answer that is longer than max_body_bytes"), balance.Cancelled, false}
	case errors.Is(err, errNoAnswer):
		return &failure{of(cache.ErrOriginFailed, "closed the connection without an answer"), balance.Failure, true}
	default:
		return &failure{of(cache.ErrOriginBadAnswer, "sent an answer that is not whole or not HTTP"), balance.Failure, true}
	}
}

// tooLate is the error of a load whose context has ended.
func tooLate(ctx context.Context) *cache.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return cache.ErrOriginFailed.With("the load was cancelled").Because(ctx.Err())
	}
	return cache.ErrOriginTimeout.With("the load ran out of time").Because(context.DeadlineExceeded)
}
