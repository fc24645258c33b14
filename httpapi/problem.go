package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
	"kring/cluster"
	"kring/httpserver"
)

// problem is the body of every error (RFC 9457).
type problem struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Status      int      `json:"status"`
	Detail      string   `json:"detail"`
	Node        string   `json:"node"`
	RequestID   string   `json:"request_id"`
	Unconfirmed []string `json:"unconfirmed,omitempty"`
}

// fail answers a request with a problem. Only an error that is this node's own
// fault goes to the log.
func (a *API) fail(c *gin.Context, err error) {
	e, f := known(err)
	if e.Code == errClientGone.Code && c.Request.Context().Err() == nil {
		// The client is there: a stop of the node has cancelled the work.
		e = cache.ErrDraining.Because(err)
		f = failures[e.Code]
	}
	if e.Code == cache.ErrInternal.Code {
		a.logInternal(c, err)
	}
	if c.Writer.Written() {
		// Half an answer is sent: only a broken connection tells the client so.
		panic(http.ErrAbortHandler)
	}
	if e.Code == errClientGone.Code {
		// No client reads this: the status is for the log and the counter.
		c.Writer.WriteHeader(f.status)
		panic(http.ErrAbortHandler)
	}
	httpserver.TurnAway(c.Request)
	h := c.Writer.Header()
	if e.Code == errUnauthorized.Code {
		h.Set("WWW-Authenticate", `Bearer realm="kring"`)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(seconds(e.RetryAfter+time.Second-1), 10))
	} else if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	if f.close {
		h.Set("Connection", "close")
	}
	h.Set("Cache-Control", "no-store")
	h["X-Content-Type-Options"] = nosniff
	h["Kring-Node"] = a.nodeValue
	a.attributeProblem(c, e.Code)
	p := problem{
		Type: "/problems/" + string(e.Code), Title: f.title, Status: f.status,
		Detail: cmp.Or(e.Detail, f.detail), Node: a.node, RequestID: a.requestID(c),
	}
	var unconfirmed *cluster.UnconfirmedError
	if errors.As(err, &unconfirmed) {
		p.Unconfirmed = unconfirmed.Nodes
	}
	body, contentType := p.render(c.Request.Header["Accept"])
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.Writer.WriteHeader(f.status)
	a.write(c, body)
}

// attributeProblem names the source of the problem of a request for a key: this
// node, unless a header names another source already.
func (a *API) attributeProblem(c *gin.Context, code cache.Code) {
	prefix, isKey := strings.CutSuffix(c.FullPath(), ":group/*key")
	if !isKey || prefix != "/v1/cache/" || code == errUnauthorized.Code || code == errForbidden.Code {
		return
	}
	h := c.Writer.Header()
	if h["Cache-Status"] == nil {
		h["Cache-Status"] = []string{a.statuses.self + "; detail=" + string(code)}
	}
	if h["Kring-Owner"] == nil {
		owner := a.node
		if key, err := pathKey(c.Request.URL, prefix); err == nil {
			owner = a.peers.View().Ring.Get(key.Key)
		}
		a.nameOwner(h, owner)
	}
}

func (a *API) logInternal(c *gin.Context, err error) {
	a.log.LogAttrs(c.Request.Context(), slog.LevelError, "request failed",
		slog.String("route", c.FullPath()), slog.String("method", c.Request.Method),
		slog.String("request_id", a.requestID(c)), slog.Any("error", err))
}

// render writes the problem in the form that the client prefers.
func (p *problem) render(accept []string) (body []byte, contentType string) {
	if text := weight(accept, "text/plain"); text > weight(accept, "application/problem+json", "application/json") {
		line := strconv.Itoa(p.Status) + " " + p.Type[len("/problems/"):] + ": " + p.Title + ": " + p.Detail
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

// panicError is the error of a handler that panicked. It has no code, so it is
// answered as an internal error.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

func stack() []byte { return debug.Stack() }

// unread has the error of each status that answers a request that was not read.
var unread = map[int]*cache.Error{
	http.StatusBadRequest:                  errBadRequest,
	http.StatusExpectationFailed:           errExpectation,
	http.StatusRequestHeaderFieldsTooLarge: errHeaderTooLarge,
	http.StatusNotImplemented:              errTransferCoding,
	http.StatusServiceUnavailable:          cache.ErrOverloaded,
	http.StatusHTTPVersionNotSupported:     errHTTPVersion,
}

// explainUnread is the whole answer to a request that was not read.
func (a *API) explainUnread(status int) []byte {
	code := unread[status].Code
	f := failures[code]
	id := a.ids.next()
	p := problem{Type: "/problems/" + string(code), Title: f.title, Status: f.status, Detail: f.detail, Node: a.node, RequestID: id}
	body, contentType := p.render(nil)
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Request-ID: %s\r\nConnection: close\r\n",
		f.status, http.StatusText(f.status), contentType, len(body), id)
	if f.retryAfter > 0 {
		b = fmt.Appendf(b, "Retry-After: %d\r\n", f.retryAfter)
	}
	a.metrics.unread.WithLabelValues(strconv.Itoa(f.status)).Inc()
	return append(append(b, "\r\n"...), body...)
}
