package httpapi

import (
	"context"
	"errors"
	"net/http"

	"kring/cache"
	"kring/httpserver"
)

// The errors that only the API knows.
var (
	errBadGroup          = &cache.Error{Code: "bad-group"}
	errBadRequest        = &cache.Error{Code: "bad-request"}
	errUnauthorized      = &cache.Error{Code: "unauthorized"}
	errForbidden         = &cache.Error{Code: "forbidden"}
	errNotFound          = &cache.Error{Code: "not-found"}
	errUnknownPool       = &cache.Error{Code: "unknown-pool"}
	errNoRoute           = &cache.Error{Code: "no-route"}
	errNoMethod          = &cache.Error{Code: "method-not-allowed"}
	errRateLimited       = &cache.Error{Code: "rate-limited"}
	errHeaderTooLarge    = &cache.Error{Code: "header-too-large"}
	errExpectation       = &cache.Error{Code: "expectation-failed"}
	errTransferCoding    = &cache.Error{Code: "transfer-coding"}
	errHTTPVersion       = &cache.Error{Code: "http-version"}
	errNoUpgrade         = &cache.Error{Code: "upgrade-required"}
	errNotReady          = &cache.Error{Code: "not-ready"}
	errClientGone        = &cache.Error{Code: "client-gone"}
	errUnknownAssignment = &cache.Error{Code: "unknown-assignment"}
	errPoolDegraded      = &cache.Error{Code: "pool-degraded"}
	errTooManyEndpoints  = &cache.Error{Code: "too-many-endpoints"}
)

// statusClientGone is the status that nginx uses for a client that closed its
// connection. It is only logged and counted: no client is there to read it.
const statusClientGone = 499

// failure is what a client sees of one code.
type failure struct {
	status int
	title  string
	// detail is for an error that has no detail of its own.
	detail string
	// retryAfter is the header Retry-After in seconds; 0 sends none.
	retryAfter int
	// close ends the connection: the client may still be sending a body.
	close bool
}

// failures is the one table from a code to what a client sees of it. A code that
// it lacks is an internal error.
var failures = map[cache.Code]failure{
	"bad-key": {
		status: http.StatusBadRequest, title: "The key is not acceptable",
		detail: "a key is UTF-8 without control characters, and not empty",
	},
	"bad-group": {
		status: http.StatusBadRequest, title: "The group name is not acceptable",
		detail: "a group is [a-z0-9][a-z0-9_-]{0,62}",
	},
	"bad-ttl": {
		status: http.StatusBadRequest, title: "The time to live is not acceptable",
		detail: "ttl is a duration above zero, such as 30s or 1h30m",
	},
	"bad-request": {
		status: http.StatusBadRequest, title: "The request is not acceptable",
		detail: "the request line, a header field or the length cannot be read, or can be read in two ways",
	},
	"unauthorized": {
		status: http.StatusUnauthorized, title: "A valid token is required",
		detail: "the request has no token, or one that this node does not know",
	},
	"forbidden": {
		status: http.StatusForbidden, title: "The token does not allow this",
		detail: "the token's role or groups do not allow this",
	},
	"not-found": {
		status: http.StatusNotFound, title: "There is no such key",
		detail: "the origin has no such key, or nothing was PUT",
	},
	"unknown-group": {
		status: http.StatusNotFound, title: "There is no such group",
		detail: "no group of this name is configured",
	},
	"unknown-pool": {
		status: http.StatusNotFound, title: "There is no such pool",
		detail: "no pool of this name is configured",
	},
	"unknown-assignment": {
		status: http.StatusNotFound, title: "There is no such assignment",
		detail: "the assignment is over, has expired or was not made here",
	},
	"no-route": {
		status: http.StatusNotFound, title: "There is nothing at this path",
		detail: "/openapi.yaml lists the paths that there are",
	},
	"too-many-endpoints": {
		status: http.StatusConflict, title: "The pool has as many endpoints as it may have",
		detail: "remove an endpoint first",
	},
	"method-not-allowed": {
		status: http.StatusMethodNotAllowed, title: "The method is not allowed here",
		detail: "the header Allow names the methods that are",
	},
	"precondition-failed": {
		status: http.StatusPreconditionFailed, title: "The condition is not met",
		detail: "the present value does not fit If-Match or If-None-Match",
	},
	"value-too-large": {
		status: http.StatusRequestEntityTooLarge, title: "The body is too large", close: true,
		detail: "the body is larger than this node accepts",
	},
	"key-too-long": {
		status: http.StatusRequestURITooLong, title: "The key is too long",
		detail: "a key has at most cache.max_key_bytes",
	},
	"header-too-large": {
		status: http.StatusRequestHeaderFieldsTooLarge, title: "The request's header is too large",
		detail: "the request line and the header fields together are too long",
	},
	"expectation-failed": {
		status: http.StatusExpectationFailed, title: "Nothing but 100-continue can be expected",
		detail: "the header Expect names something else",
	},
	"upgrade-required": {
		status: http.StatusUpgradeRequired, title: "This path is for the links between nodes",
		detail: "the request does not ask for an upgrade to the link of this version",
	},
	"transfer-coding": {
		status: http.StatusNotImplemented, title: "The only transfer coding is chunked",
		detail: "the header Transfer-Encoding names something else",
	},
	"http-version": {
		status: http.StatusHTTPVersionNotSupported, title: "The version of HTTP is not supported",
		detail: "this node speaks HTTP/1.1",
	},
	"rate-limited": {
		status: http.StatusTooManyRequests, title: "Too many requests with this token", retryAfter: 1,
		detail: "limits.rate_per_token is reached",
	},
	"client-gone": {
		status: statusClientGone, title: "The client is gone",
		detail: "the client has closed its connection",
	},
	"internal": {
		status: http.StatusInternalServerError, title: "Something went wrong inside",
		detail: "the node's log has the cause under this request_id",
	},
	"origin-failed": {
		status: http.StatusBadGateway, title: "The origin failed",
		detail: "no endpoint answered 200, 404 or 410",
	},
	"origin-bad-answer": {
		status: http.StatusBadGateway, title: "The origin's answer cannot be used",
		detail: "the body of its answer was not whole, or was too large",
	},
	"overloaded": {
		status: http.StatusServiceUnavailable, title: "Too much is going on", retryAfter: 1,
		detail: "a limit of this node is reached",
	},
	"no-eligible-endpoint": {
		status: http.StatusServiceUnavailable, title: "The pool has no eligible endpoint", retryAfter: 1,
		detail: "nothing was sent",
	},
	"pool-degraded": {
		status: http.StatusServiceUnavailable, title: "The pool's shared state cannot be reached", retryAfter: 1,
		detail: "the node keeps trying to reach it",
	},
	"draining": {
		status: http.StatusServiceUnavailable, title: "The node is shutting down", retryAfter: 1,
		detail: "the other nodes still answer",
	},
	"not-ready": {
		status: http.StatusServiceUnavailable, title: "The node is not ready", retryAfter: 1,
		detail: "the node has yet to hear from its peers",
	},
	"cut-off": {
		status: http.StatusServiceUnavailable, title: "The node hears no majority", retryAfter: 1,
		detail: "writes wait until it does",
	},
	"origin-timeout": {
		status: http.StatusGatewayTimeout, title: "The origin did not answer in time",
		detail: "the load goes on and may still fill the cache",
	},
	"not-cached": {
		status: http.StatusGatewayTimeout, title: "The key is not cached",
		detail: "the request asked for a cached value only",
	},
	"write-unconfirmed": {
		status: http.StatusGatewayTimeout, title: "Not every node has confirmed the write",
		detail: "the write may still take effect",
	},
}

// errTooLarge and errShortBody are what clients see of the errors of a body.
var (
	errTooLarge  = cache.ErrValueTooLarge.With("the body is larger than this node accepts")
	errShortBody = errBadRequest.With("the body did not arrive whole and in time")
)

// known finds the error in err that the table has a row for. An error without a
// row becomes an internal error, whose cause is for the log.
func known(err error) (*cache.Error, failure) {
	var e *cache.Error
	if errors.As(err, &e) {
		if f, ok := failures[e.Code]; ok {
			return e, f
		}
	}
	switch {
	case errors.Is(err, httpserver.ErrBodyTooLarge):
		e = errTooLarge
	case errors.Is(err, httpserver.ErrBodyShort):
		e = errShortBody.Because(err)
	case errors.Is(err, context.Canceled):
		e = errClientGone.Because(err)
	case errors.Is(err, context.DeadlineExceeded):
		e = cache.ErrOriginTimeout.Because(err)
	default:
		e = cache.ErrInternal.Because(err)
	}
	return e, failures[e.Code]
}

// statusOf is the status and the code of one key's error in a batch.
func statusOf(err error) (int, cache.Code) {
	e, f := known(err)
	return f.status, e.Code
}
