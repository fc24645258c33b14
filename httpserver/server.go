package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	// headerTimeout is how long a request's header may take to arrive.
	headerTimeout = 5 * time.Second
	// idleTimeout is how long a kept connection waits for its next request.
	idleTimeout = 90 * time.Second
	// answerTimeout is how long the writing of an answer may take after the
	// request's time is over: a client that reads slowly keeps a value in memory.
	answerTimeout = time.Minute
	// grace is how long the connection of a late request stays open, so that the
	// handler's own answer to it can be written.
	grace = 2 * time.Second
	// displaceTime is how long a closed connection gets to free its descriptor.
	displaceTime = 2 * time.Millisecond
	// refuseTime is how long the write of a refusal may take.
	refuseTime = 50 * time.Millisecond
	// headSlop is how many bytes package http reads at most beyond the header's
	// limit before it gives up: 4 KiB of tolerance, and the rest of a buffer.
	headSlop = 8 << 10
)

// Config is what New needs. There are no defaults.
type Config struct {
	// MaxConnections bounds the open client connections.
	MaxConnections int
	// ConnectionsPerAddress bounds the open connections of one client address.
	ConnectionsPerAddress int
	// RequestTimeout is how long a request may take to arrive. Its answer may take
	// as long again and a minute more.
	RequestTimeout time.Duration
	// MaxHeaderBytes bounds a request line and its header fields together.
	MaxHeaderBytes int
	// Explain writes the whole answer, status line included, for a client whose
	// request was not read: 400, 417, 431, 501 or 505 if it could not be, and 503
	// if there was no place for the connection. The connection is closed after it.
	Explain func(status int) []byte
	// Log gets what package http complains about.
	Log *slog.Logger
}

// Server holds client connections to their limits. It is safe for concurrent
// use.
type Server struct {
	config Config
	conns  *connections
}

// New makes a Server. It listens on nothing by itself.
func New(c Config) *Server {
	return &Server{
		config: c,
		conns:  newConnections(c.MaxConnections, c.ConnectionsPerAddress, c.MaxHeaderBytes+headSlop, c.Explain),
	}
}

// HTTP makes an http.Server with a time limit for each stage of a connection.
// Its listeners must be those of Listener. There is no HTTP/2, which clients
// speak over TLS alone.
func (s *Server) HTTP(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	timeout := s.config.RequestTimeout
	return &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: min(headerTimeout, timeout+grace),
		ReadTimeout:       timeout + grace,
		WriteTimeout:      timeout + grace + answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    s.config.MaxHeaderBytes,
		ConnState:         s.conns.changed,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if c, ok := c.(*connection); ok {
				return context.WithValue(ctx, connectionKey{}, c)
			}
			return ctx
		},
		ErrorLog: slog.NewLogLogger(s.config.Log.Handler(), slog.LevelWarn),
		// The handler answers OPTIONS * like any other path that is not there.
		DisableGeneralOptionsHandler: true,
	}
}

// Stats are the counts of a server's connections.
type Stats struct {
	Open      int    // connections that are open now
	Refused   uint64 // connections that were closed unserved at a limit
	Displaced uint64 // idle connections that were closed for new ones
}

// Stats returns the counts up to now.
func (s *Server) Stats() Stats {
	return Stats{Open: s.conns.count(), Refused: s.conns.refused.Load(), Displaced: s.conns.displaced.Load()}
}

// CloseIdle closes the client connection that has waited longest for its
// client, for something that needs its descriptor more. It reports whether
// there was one.
func (s *Server) CloseIdle() bool { return s.conns.displaceIdle() }

// Listener holds the connections that l accepts to the server's limits. At a
// limit the longest idle connection is closed for the new one; if no connection
// is idle, the new client gets a 503. When the process has no descriptors left,
// the longest idle connection is closed too; if no connection is idle, the
// server waits between 5 ms and 1 s before it tries again.
func (s *Server) Listener(l net.Listener) net.Listener { return &listener{Listener: l, conns: s.conns} }

type listener struct {
	net.Listener
	conns *connections
}

// Accept returns the next connection that there is a place for. The others are
// told 503, in a packet that always fits the buffer of a new connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && l.conns.displaceIdle() {
				// The goroutine that reads it frees the descriptor in a moment.
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

// refuse closes the connection even if the client cannot be told why.
func (l *listener) refuse(c net.Conn) {
	if err := c.SetWriteDeadline(time.Now().Add(refuseTime)); err == nil {
		_, _ = c.Write(l.conns.explain(http.StatusServiceUnavailable))
	}
	_ = c.Close()
}
