package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
	"kring/httpserver"
)

// scope is how much of a key a route's path holds.
type scope uint8

const (
	noKey scope = iota
	groupOnly
	groupAndKey
)

// route is one line of the routing table.
type route struct {
	method string // GET stands for GET and HEAD
	path   string
	need   role
	scope  scope
	// bounded routes count against limits.requests_in_flight. The others are needed
	// most when the node is overloaded.
	bounded bool
	handle  func(c *gin.Context, key cache.Key) error
}

// handler adds to a route what all routes need. It is one function instead of a
// chain of middleware, which would be a good part of a hit's cost.
func (a *API) handler(rt route) gin.HandlerFunc {
	m := a.metrics.route(rt.method, rt.path)
	prefix, _, _ := strings.Cut(rt.path, ":group")
	return func(c *gin.Context) {
		start := time.Now()
		defer a.finish(c, m, start)
		a.requestID(c)
		if err := a.serve(c, &rt, prefix); err != nil {
			a.fail(c, err)
		}
	}
}

func (a *API) serve(c *gin.Context, rt *route, prefix string) error {
	r := c.Request
	if err := httpserver.CheckFraming(r); err != nil {
		return errBadRequest.With(err.Error())
	}
	if rt.bounded {
		defer a.inFlight.Add(-1)
		if n := a.inFlight.Add(1); n > int64(a.limits.RequestsInFlight) {
			return cache.ErrOverloaded.With("too many requests in flight")
		}
	}
	var key cache.Key
	var err error
	if rt.scope != noKey {
		key, err = pathKey(r.URL, prefix)
		if err != nil {
			return err
		}
	}
	if err := a.auth.allow(c, rt.need, key.Group); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if r.ContentLength != 0 {
			c.Writer.Header().Set("Connection", "close")
			return errBadRequest.With("a " + r.Method + " must have no body")
		}
	default:
		// A web page of another origin must not write through its reader's
		// browser to a node on the reader's loopback.
		if err := a.cross.Check(r); err != nil {
			return errForbidden.With("a browser sent this for a page of another origin")
		}
	}
	return rt.handle(c, key)
}

// finish records a request, and turns a panic into an answer.
func (a *API) finish(c *gin.Context, m *routeMetrics, start time.Time) {
	if v := recover(); v != nil {
		a.recovered(c, m, start, v)
		return
	}
	a.record(c, m, start)
}

func (a *API) recovered(c *gin.Context, m *routeMetrics, start time.Time, v any) {
	defer a.record(c, m, start)
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	a.fail(c, &panicError{value: v, stack: stack()})
}

func (a *API) record(c *gin.Context, m *routeMetrics, start time.Time) {
	took := time.Since(start)
	status := c.Writer.Status()
	m.observe(status, took)
	if ctx := c.Request.Context(); a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.LogAttrs(ctx, slog.LevelDebug, "request answered",
			slog.String("method", m.method), slog.String("route", m.path), slog.Int("status", status),
			slog.Int("bytes", max(0, c.Writer.Size())), slog.Duration("took", took),
			slog.String("request_id", a.requestID(c)), slog.String("remote", c.Request.RemoteAddr))
	}
}
