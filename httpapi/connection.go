package httpapi

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"kring/cache"
)

const (
	// lingerTime and lingerBytes bound what is still read, and thrown away,
	// from a client that is being turned away in mid-sentence.
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 16 << 20
)

// connection is an accepted connection that is counted until it is closed or
// hijacked.
type connection struct {
	net.Conn
	owner *connections
	addr  netip.Addr
	// idle is its turn in the row of those that wait for a request: the lower,
	// the longer it has waited. It is 0 while a request is answered.
	idle atomic.Uint64
	// unanswered says that nothing was written since the last request began.
	// Only the server's goroutine for this connection touches it.
	unanswered bool
}

// Close closes the connection and gives its place to another.
func (c *connection) Close() error {
	c.release()
	return c.Conn.Close()
}

func (c *connection) release() { c.owner.remove(c) }

// NetConn is the connection underneath.
func (c *connection) NetConn() net.Conn { return c.Conn }

// CloseWrite ends the answers but not the connection. The server calls it when
// it gives up on a client that may still be sending; closing at once would
// reset the connection and take the answer away with it. So what the client
// has yet to send is read for a moment.
func (c *connection) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(lingerTime)); err != nil {
		return err
	}
	// Its end, the deadline and a reset all mean that it is time to close.
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	return nil
}

// Write passes on what the server writes, but for the errors that package http
// answers with by itself, when it cannot read a request's header: these become
// problems like all others. They are told from any handler's answer by being
// the first that is written for a request, and by headers that none has so.
func (c *connection) Write(p []byte) (int, error) {
	if c.unanswered {
		c.unanswered = false
		if code := unreadable(p); code != "" {
			if _, err := c.Conn.Write(c.owner.explain(code)); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

// errorHeaders are what package http puts after the status line of its own
// errors.
var errorHeaders = []byte("Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// unreadable is the code for an answer that package http made by itself, or "".
func unreadable(p []byte) cache.Code {
	line, rest, ok := bytes.Cut(p, []byte("\r\n"))
	if !ok || !bytes.HasPrefix(rest, errorHeaders) {
		return ""
	}
	switch {
	case bytes.HasPrefix(line, []byte("HTTP/1.1 400 ")):
		return errBadRequest.Code
	case bytes.HasPrefix(line, []byte("HTTP/1.1 431 ")):
		return errHeaderTooLarge.Code
	}
	return ""
}
