package origin

import (
	"fmt"
	"net/http"
	"time"

	"kring/balance"
	"kring/cache"
)

// refused makes the failure of an answer whose status means neither a value
// (200, or 304 to a conditional request) nor a missing key (404, 410). A table
// in docs/troubleshooting.md says the same to operators.
//
// For the stored value, an error is 500, 502, 503 or 504 (RFC 5861 §4), and
// nothing else. Any other status about the resource ends the value.
//
// The endpoint is to blame for the statuses of health.fail_statuses, for a
// status that HTTP does not have, and for a 206 or a 304 to a request without a
// range or a condition. It is not to blame for other statuses. They depend on
// the key, and a client that asks for odd keys must not be able to have
// endpoints ejected.
func (o *Origin) refused(endpoint string, r *http.Response) *failure {
	status := r.StatusCode
	outcome := balance.Cancelled
	if o.pool.Blames(status) {
		outcome = balance.Failure
	}
	detail := fmt.Sprintf("endpoint %s answered %d", endpoint, status)
	switch {
	case status == http.StatusPartialContent || status == http.StatusNotModified:
		return &failure{cache.ErrOriginBadAnswer.With(detail + ", which was not asked for"), balance.Failure, true}
	case status < 200 || status > 599:
		// Such a status counts as a 5xx (RFC 9110 §15).
		return &failure{cache.ErrOriginBadAnswer.With(detail + ", which is no status of HTTP"), balance.Failure, true}
	}
	err := cache.ErrOriginFailed.With(detail)
	later := retryAfter(r.Header, time.Now())
	switch {
	case ofThisEndpoint(status):
		return &failure{err.Saying(cache.OriginRefuses, later), outcome, true}
	case serverError(status):
		return &failure{err.Saying(cache.OriginDown, later), outcome, true}
	case status >= 500:
		return &failure{err.Saying(cache.OriginRefuses, later), outcome, true}
	default:
		return &failure{err.Saying(cache.ValueEnded, 0), outcome, false}
	}
}

// ofThisEndpoint reports whether a 4xx is about the connection (408, 421) or
// the rate of requests (429). It says nothing about the key, and another
// endpoint may answer otherwise.
func ofThisEndpoint(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusMisdirectedRequest || status == http.StatusTooManyRequests
}

// serverError reports whether a 5xx is an error in the sense of RFC 5861 §4. An
// unknown status counts as a 500 (RFC 9110 §15). Known statuses that the RFC
// does not list say what the server never does.
func serverError(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status >= 500 && http.StatusText(status) == ""
}

// maxRetryAfter bounds the wait that an origin may ask for: a slip in one
// header must not keep a key from being loaded for a day.
const maxRetryAfter = 5 * time.Minute

// retryAfter reads Retry-After (RFC 9110 §10.2.3), seconds or a date. An
// unreadable value asks for no wait.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := firstMember(h, "Retry-After")
	if d, ok := seconds(v); ok {
		return min(d, maxRetryAfter)
	}
	until, ok := date(h, "Retry-After", now)
	if !ok {
		return 0
	}
	return max(0, min(until.Sub(dated(h, now)), maxRetryAfter))
}
