package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

// The failures that only the HTTP surface knows.
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
)

// statusClientGone is what nginx made customary for a client that closed its
// connection. It is only ever logged and counted: nobody is there to read it.
const statusClientGone = 499

// failure is how one code looks from outside.
type failure struct {
	status int
	title  string
	// retryAfter is the header Retry-After in seconds; 0 sends none.
	retryAfter int
	// close ends the connection: what the client sends next cannot be trusted
	// to be a request, or is a body that nobody will read.
	close bool
}

// failures is the one table from a code to what a client sees of it. A code
// that is missing here is an internal error.
var failures = map[cache.Code]failure{
	"bad-key":             {status: http.StatusBadRequest, title: "The key is not acceptable"},
	"bad-group":           {status: http.StatusBadRequest, title: "The group name is not acceptable"},
	"bad-ttl":             {status: http.StatusBadRequest, title: "The time to live is not acceptable"},
	"bad-request":         {status: http.StatusBadRequest, title: "The request is not acceptable"},
	"unauthorized":        {status: http.StatusUnauthorized, title: "A valid token is required"},
	"forbidden":           {status: http.StatusForbidden, title: "The token does not allow this"},
	"not-found":           {status: http.StatusNotFound, title: "There is no such key"},
	"unknown-group":       {status: http.StatusNotFound, title: "There is no such group"},
	"unknown-pool":        {status: http.StatusNotFound, title: "There is no such pool"},
	"unknown-assignment":  {status: http.StatusNotFound, title: "There is no such assignment"},
	"no-route":            {status: http.StatusNotFound, title: "There is nothing at this path"},
	"method-not-allowed":  {status: http.StatusMethodNotAllowed, title: "The method is not allowed here"},
	"precondition-failed": {status: http.StatusPreconditionFailed, title: "The condition is not met"},
	"value-too-large":     {status: http.StatusRequestEntityTooLarge, title: "The body is too large", close: true},
	"key-too-long":        {status: http.StatusRequestURITooLong, title: "The key is too long"},
	"header-too-large":    {status: http.StatusRequestHeaderFieldsTooLarge, title: "The request's header is too large"},
	"expectation-failed":  {status: http.StatusExpectationFailed, title: "Nothing but 100-continue can be expected"},
	"upgrade-required":    {status: http.StatusUpgradeRequired, title: "This path is for the links between nodes"},
	"transfer-coding":     {status: http.StatusNotImplemented, title: "The only transfer coding is chunked"},
	"http-version":        {status: http.StatusHTTPVersionNotSupported, title: "The version of HTTP is not supported"},
	"rate-limited":        {status: http.StatusTooManyRequests, title: "Too many requests with this token", retryAfter: 1},
	"client-gone":         {status: statusClientGone, title: "The client is gone"},
	"internal":            {status: http.StatusInternalServerError, title: "Something went wrong inside"},
	"origin-failed":       {status: http.StatusBadGateway, title: "The origin failed"},
	"origin-bad-answer":   {status: http.StatusBadGateway, title: "The origin's answer cannot be used"},
	"overloaded":          {status: http.StatusServiceUnavailable, title: "Too much is going on", retryAfter: 1},
	"no-eligible-endpoint": {
		status: http.StatusServiceUnavailable, title: "The pool has no eligible endpoint", retryAfter: 1,
	},
	"pool-degraded": {
		status: http.StatusServiceUnavailable, title: "The pool's shared state cannot be reached", retryAfter: 1,
	},
	"draining":          {status: http.StatusServiceUnavailable, title: "The node is shutting down", retryAfter: 1},
	"not-ready":         {status: http.StatusServiceUnavailable, title: "The node is not ready", retryAfter: 1},
	"cut-off":           {status: http.StatusServiceUnavailable, title: "The node hears no majority", retryAfter: 1},
	"origin-timeout":    {status: http.StatusGatewayTimeout, title: "The origin did not answer in time"},
	"not-cached":        {status: http.StatusGatewayTimeout, title: "The key is not cached"},
	"write-unconfirmed": {status: http.StatusGatewayTimeout, title: "Not every node has confirmed the write"},
}

// problem is the body of every error (RFC 9457).
type problem struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Status      int      `json:"status"`
	Detail      string   `json:"detail,omitempty"`
	Node        string   `json:"node"`
	RequestID   string   `json:"request_id"`
	Unconfirmed []string `json:"unconfirmed,omitempty"`
}

// known finds the error in err that the table has a row for. What it has none
// for becomes an internal error, whose cause is for the log.
func known(err error) (*cache.Error, failure) {
	var e *cache.Error
	if errors.As(err, &e) {
		if f, ok := failures[e.Code]; ok {
			return e, f
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		e = errClientGone.Because(err)
	case errors.Is(err, context.DeadlineExceeded):
		e = cache.ErrOriginTimeout.Because(err)
	default:
		e = cache.ErrInternal.Because(err)
	}
	return e, failures[e.Code]
}

// statusOf is the status of one key's failure in a batch.
func statusOf(err error) (int, cache.Code) {
	e, f := known(err)
	return f.status, e.Code
}

// fail answers a request with a problem. The error itself goes to the log only
// if it is this server's own fault; all others are the caller's to read.
func (a *API) fail(c *gin.Context, err error) {
	e, f := known(err)
	if e.Code == errClientGone.Code && c.Request.Context().Err() == nil {
		// The client is there: what was cancelled is the work, at a stop.
		e = cache.ErrDraining.Because(err)
		f = failures[e.Code]
	}
	if e.Code == cache.ErrInternal.Code {
		a.logInternal(c, err)
	}
	if c.Writer.Written() {
		// Half an answer is out: only a broken connection tells the client so.
		panic(http.ErrAbortHandler)
	}
	if e.Code == errClientGone.Code {
		// Nobody reads it: the status is for the log and the counter.
		c.Writer.WriteHeader(f.status)
		panic(http.ErrAbortHandler)
	}
	if conn := connectionOf(c.Request); conn != nil && (c.Request.ContentLength != 0 || !c.Request.ProtoAtLeast(1, 1)) {
		conn.turnedAway.Store(true)
	}
	h := c.Writer.Header()
	if e.Code == errUnauthorized.Code {
		h.Set("WWW-Authenticate", `Bearer realm="kring"`)
	}
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	if f.close {
		h.Set("Connection", "close")
	}
	h.Set("Cache-Control", "no-store")
	h["X-Content-Type-Options"] = nosniff
	h["Kring-Node"] = a.nodeValue
	p := problem{
		Type: "/problems/" + string(e.Code), Title: f.title, Status: f.status,
		Detail: e.Detail, Node: a.node, RequestID: a.requestID(c),
	}
	var unconfirmed *cache.UnconfirmedError
	if errors.As(err, &unconfirmed) {
		p.Unconfirmed = unconfirmed.Nodes
	}
	body, contentType := p.render(c.Request.Header["Accept"])
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.Writer.WriteHeader(f.status)
	a.write(c, body)
}

func (a *API) logInternal(c *gin.Context, err error) {
	a.log.LogAttrs(c.Request.Context(), slog.LevelError, "request failed",
		slog.String("route", c.FullPath()), slog.String("method", c.Request.Method),
		slog.String("request_id", a.requestID(c)), slog.Any("error", err))
}

// render writes the problem as the client can read it.
func (p *problem) render(accept []string) (body []byte, contentType string) {
	if text := weight(accept, "text/plain"); text > weight(accept, "application/problem+json", "application/json") {
		line := strconv.Itoa(p.Status) + " " + p.Type[len("/problems/"):] + ": " + p.Title
		if p.Detail != "" {
			line += ": " + p.Detail
		}
		line = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, line)
		return []byte(line + "\n"), "text/plain; charset=utf-8"
	}
	body, err := json.Marshal(p)
	if err != nil { // a problem is strings and a number
		panic(err)
	}
	return append(body, '\n'), "application/problem+json"
}
