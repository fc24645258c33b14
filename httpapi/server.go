package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"strconv"

	"kring/cache"
)

// headerBytes bounds a request's header besides the key in its path. Each byte of
// a key may be escaped as %XX.
const headerBytes = 16 << 10

// Server makes an http.Server for the API, whose time limits follow
// limits.request_timeout. A body of 8 MiB, which has the default 30 s, needs
// 280 KB/s. The listeners of the server must be those of Listener.
func (a *API) Server() *http.Server { return a.server.HTTP(a.Handler()) }

// Listener holds the connections that l accepts to limits.max_connections and
// limits.connections_per_address.
func (a *API) Listener(l net.Listener) net.Listener { return a.server.Listener(l) }

// CloseIdle closes the client connection that has waited longest for its
// client, for something that needs its descriptor more. It reports whether
// there was one.
func (a *API) CloseIdle() bool { return a.server.CloseIdle() }

// unread has the error for each status that a client may get whose request was
// not read.
var unread = map[int]*cache.Error{
	http.StatusBadRequest:                  errBadRequest,
	http.StatusExpectationFailed:           errExpectation,
	http.StatusRequestHeaderFieldsTooLarge: errHeaderTooLarge,
	http.StatusNotImplemented:              errTransferCoding,
	http.StatusServiceUnavailable:          cache.ErrOverloaded,
	http.StatusHTTPVersionNotSupported:     errHTTPVersion,
}

// explainUnread is the whole answer to a client whose request was not read.
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
