package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	// lingerTime bounds how long a connection is read, and what comes is thrown
	// away, after its client was turned away in mid-sentence. lingerIdle is how
	// long the client may pause meanwhile.
	lingerTime = 5 * time.Second
	lingerIdle = time.Second
	lingerRead = 64 << 10 // bytes at a time
)

// connection is an accepted connection. It is counted until it is closed or
// hijacked.
type connection struct {
	net.Conn
	owner *connections
	addr  netip.Addr
	// idle is the connection's turn among those that wait for a request, or for
	// more of its body: the lower it is, the longer the connection has waited. It
	// is 0 while a request is answered.
	idle atomic.Uint64

	// Only the server's goroutine for this connection touches these.
	unanswered bool   // nothing was written since the last request began
	requests   int    // how many requests have begun
	first      []byte // what was read until the first request began
	coded      bool   // the first request names a Transfer-Encoding

	// turnedAway says that the client may still be sending.
	turnedAway atomic.Bool

	progress
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// connectionOf is the connection that a request came over. It is nil for a
// request that came over no connection of a Server.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// waits gives the connection its turn among those that wait for their clients.
func (c *connection) waits() { c.idle.Store(c.owner.turns.Add(1)) }

// works takes the connection out of those that wait.
func (c *connection) works() { c.idle.Store(0) }

// Read keeps the header of the first request: package http drops the
// Transfer-Encoding of HTTP/1.0, and only a first request may be of HTTP/1.0
// (see CheckFraming).
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.requests == 0 && len(c.first) < c.owner.maxHead {
		c.first = append(c.first, p[:n]...)
	}
	return n, err
}

// begin notes that a request's header was read.
func (c *connection) begin() {
	c.requests++
	c.unanswered = true
	if c.requests == 1 {
		c.coded = namesTransferEncoding(c.first)
		c.first = nil
	}
}

// Write passes on what the server writes, except for the errors that package
// http answers by itself when it cannot read a request's header: Explain writes
// these. Such an error is the first answer to a request, and has headers or a
// status that no handler's answer has.
func (c *connection) Write(p []byte) (int, error) {
	if c.unanswered {
		c.unanswered = false
		if status := unreadable(p); status > 0 {
			c.turnedAway.Store(true)
			if _, err := c.Conn.Write(c.owner.explain(status)); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	if !c.watched {
		return c.Conn.Write(p)
	}
	return c.writeWatched(p)
}

// Close closes the connection and gives its place to another.
func (c *connection) Close() error {
	if c.turnedAway.Swap(false) {
		// The client may miss the reason for the close, but for nothing worse.
		_ = c.CloseWrite()
	}
	c.release()
	return c.Conn.Close()
}

func (c *connection) release() { c.owner.remove(c) }

// NetConn is the connection underneath.
func (c *connection) NetConn() net.Conn { return c.Conn }

// CloseWrite ends the answers but not the connection. The server calls it when
// it gives up on a client that may still be sending. A close at once would reset
// the connection, and the client would lose the answer. So the connection reads
// for a while what the client has yet to send.
func (c *connection) CloseWrite() error {
	c.turnedAway.Store(false)
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	c.waits() // a new client may have its place
	b := make([]byte, lingerRead)
	for now, end := time.Now(), time.Now().Add(lingerTime); now.Before(end); now = time.Now() {
		if err := c.SetReadDeadline(now.Add(min(lingerIdle, end.Sub(now)))); err != nil {
			return err
		}
		if _, err := c.Conn.Read(b); err != nil {
			return nil // the end, the deadline and a reset all mean that it is time to close
		}
	}
	return nil
}
