package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"kring/cache"
)

const (
	// headerTimeout is how long a request's header may take to arrive.
	headerTimeout = 5 * time.Second
	// idleTimeout is how long a kept connection waits for its next request.
	idleTimeout = 90 * time.Second
	// answerTimeout is how long after its request was due an answer may take
	// to be written: a client that reads slowly holds a value in memory.
	answerTimeout = time.Minute
	// grace lets this node's own answer to a late request come before the
	// connection ends.
	grace = 2 * time.Second
	// displaceTime is how long a closed connection gets to free its descriptor.
	displaceTime = 2 * time.Millisecond
	// headerBytes bounds a request's header besides the key in its path.
	headerBytes = 16 << 10
	// headSlop is what package http reads at most beyond the header's limit
	// before it gives up: 4 KiB of tolerance, and a buffer's rest.
	headSlop = 8 << 10
)

// Server makes an http.Server with the limits that keep slow and greedy
// clients from others. Its listeners should be wrapped by Listener.
//
// A body has limits.request_timeout to arrive: 30 s by default, at which 8 MiB
// need 280 KB/s. There is no HTTP/2: it would only be spoken over TLS.
func (a *API) Server() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           a.Handler(),
		Protocols:         protocols,
		ReadHeaderTimeout: min(headerTimeout, a.limits.RequestTimeout+grace),
		ReadTimeout:       a.limits.RequestTimeout + grace,
		WriteTimeout:      a.limits.RequestTimeout + grace + answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    a.headerLimit(),
		ConnState:         a.conns.changed,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if c, ok := c.(*connection); ok {
				return context.WithValue(ctx, connectionKey{}, c)
			}
			return ctx
		},
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
		// OPTIONS * is answered like any other path that is not there.
		DisableGeneralOptionsHandler: true,
	}
}

// headerLimit is http.Server.MaxHeaderBytes: each byte of a key may be escaped.
func (a *API) headerLimit() int { return headerBytes + 3*a.maxKey }

// Listener holds what l accepts to limits.max_connections and
// limits.connections_per_address; see connections for what happens at them.
// When the process has no descriptors left, the longest idle connection is
// closed in favour of the next; if none is idle, the server waits between 5 ms
// and 1 s before it tries again.
func (a *API) Listener(l net.Listener) net.Listener { return &listener{Listener: l, conns: a.conns} }

type listener struct {
	net.Listener
	conns *connections
}

// Accept returns the next connection that there is a place for. Those without
// one are told 503, in a packet that always fits a new connection's buffer.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && l.conns.displaceIdle() {
				// Its reader lets go of the descriptor in a moment.
				time.Sleep(displaceTime)
				continue
			}
			return nil, err
		}
		if c, ok := l.conns.admit(raw); ok {
			return c, nil
		}
		l.refuse(raw)
	}
}

// refuse is best effort: who cannot be told is closed all the same.
func (l *listener) refuse(c net.Conn) {
	if err := c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err == nil {
		_, _ = c.Write(l.conns.explain(cache.ErrOverloaded.Code))
	}
	_ = c.Close()
}

// explainUnread is a whole answer, for a client whose request was not read.
func (a *API) explainUnread(code cache.Code) []byte {
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
