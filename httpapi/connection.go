package httpapi

import (
	"bytes"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"kring/cache"
)

const (
	// lingerTime bounds how long what a client still sends is read, and thrown
	// away, after it was turned away in mid-sentence; lingerIdle, how long it may
	// pause meanwhile.
	lingerTime = 5 * time.Second
	lingerIdle = time.Second
	lingerRead = 64 << 10 // bytes at a time
	// writePiece is how much of a watched answer is written at a time.
	writePiece = 64 << 10
)

// connection is an accepted connection that is counted until it is closed or
// hijacked.
type connection struct {
	net.Conn
	owner *connections
	addr  netip.Addr
	// idle is its turn in the row of those that wait for a request, or for more
	// of its body: the lower, the longer it has waited. It is 0 while a request
	// is answered.
	idle atomic.Uint64

	// The server's goroutine for this connection alone touches these.
	unanswered bool   // nothing was written since the last request began
	requests   int    // how many have begun
	first      []byte // what was read until the first began
	coded      bool   // the first names a Transfer-Encoding

	// watched says that the answer is charged to the budget of answers, so that
	// what the client takes of it is followed.
	watched bool

	// turnedAway says that the client may not have been heard out.
	turnedAway atomic.Bool

	// reading is when the node began to wait for bytes of a body, on the clock
	// of since; 0: it does not wait.
	reading atomic.Int64
	// pieces counts the beginnings and the ends of writes of a watched answer:
	// it is odd while the client is waited for.
	pieces atomic.Uint64
	// taken is what was seen when somebody last looked at the write under way.
	taken struct {
		mu     sync.Mutex // guards the rest
		pieces uint64
		bytes  uint64
		at     time.Time // when either had last risen
	}
}

// start is where the clock of since begins.
var start = time.Now()

// since is the time on a monotonic clock, and never 0.
func since(t time.Time) time.Duration { return t.Sub(start) + 1 }

// stalled is how long the client has been seen to take nothing of the answer
// that is being written to it.
func (c *connection) stalled(now time.Time) time.Duration {
	pieces := c.pieces.Load()
	if pieces%2 == 0 {
		return 0
	}
	bytes, _ := acknowledged(c.Conn)
	t := &c.taken
	t.mu.Lock()
	defer t.mu.Unlock()
	if pieces != t.pieces || bytes != t.bytes {
		t.pieces, t.bytes, t.at = pieces, bytes, now
	}
	return now.Sub(t.at)
}

// silent is how long the client has sent nothing of the body that is awaited.
func (c *connection) silent(now time.Time) time.Duration {
	if reading := c.reading.Load(); reading > 0 {
		return since(now) - time.Duration(reading)
	}
	return 0
}

// quiet is how long the client has neither sent what is awaited nor taken what is
// written.
func (c *connection) quiet(now time.Time) time.Duration { return max(c.silent(now), c.stalled(now)) }

// cut ends the writing of an answer.
func (c *connection) cut() { _ = c.Conn.Close() }

// hurry ends the wait for a body.
func (c *connection) hurry() { _ = c.Conn.SetReadDeadline(start) }

// end ends what the client is waited for.
func (c *connection) end() {
	if c.reading.Load() > 0 {
		c.hurry()
	} else {
		c.cut()
	}
}

// connectionKey is a request's connection in its context.
type connectionKey struct{}

// connectionOf is the connection that a request came over; nil if it came over
// none of ours.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// Read keeps what the first request's header consists of: package http drops
// the Transfer-Encoding of HTTP/1.0, which only the first can be of (see
// checkOldFraming).
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.requests == 0 && len(c.first) < c.owner.maxHead {
		c.first = append(c.first, p[:n]...)
	}
	return n, err
}

// waits gives the connection its turn among those that wait for their client.
func (c *connection) waits() { c.idle.Store(c.owner.turns.Add(1)) }

// works takes it out of them.
func (c *connection) works() { c.idle.Store(0) }

// begin notes that a request's header was read.
func (c *connection) begin() {
	c.requests++
	c.unanswered = true
	if c.requests == 1 {
		c.coded = namesTransferEncoding(c.first)
		c.first = nil
	}
}

// namesTransferEncoding looks for the field among the lines before the first
// empty one.
func namesTransferEncoding(head []byte) bool {
	const name = "transfer-encoding"
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			return false
		}
		field, _, _ := bytes.Cut(line, []byte(":"))
		if len(field) >= len(name) && bytes.EqualFold(bytes.TrimSpace(field), []byte(name)) {
			return true
		}
	}
	return false
}

// Close closes the connection and gives its place to another.
func (c *connection) Close() error {
	if c.turnedAway.Swap(false) {
		// Who cannot be heard out has no use for the reason either.
		_ = c.CloseWrite()
	}
	c.release()
	return c.Conn.Close()
}

func (c *connection) release() { c.owner.remove(c) }

// NetConn is the connection underneath.
func (c *connection) NetConn() net.Conn { return c.Conn }

// CloseWrite ends the answers but not the connection. The server calls it when
// it gives up on a client that may still be sending; closing at once would
// reset the connection and take the answer away with it. So what the client
// has yet to send is read for a while.
func (c *connection) CloseWrite() error {
	c.turnedAway.Store(false)
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	c.waits() // who wants in need not wait for who is on the way out
	b := make([]byte, lingerRead)
	for now, end := time.Now(), time.Now().Add(lingerTime); now.Before(end); now = time.Now() {
		if err := c.SetReadDeadline(now.Add(min(lingerIdle, end.Sub(now)))); err != nil {
			return err
		}
		if _, err := c.Conn.Read(b); err != nil {
			return nil // its end, the deadline and a reset all mean that it is time to close
		}
	}
	return nil
}

// Write passes on what the server writes, but for the errors that package http
// answers with by itself, when it cannot read a request's header: these become
// problems like all others. They are told from any handler's answer by being
// the first that is written for a request, and by headers or a status that
// none has so.
func (c *connection) Write(p []byte) (int, error) {
	if c.unanswered {
		c.unanswered = false
		if code := unreadable(p); code != "" {
			c.turnedAway.Store(true)
			if _, err := c.Conn.Write(c.owner.explain(code)); err != nil {
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

// writeWatched writes in pieces, so that each is seen to be taken.
func (c *connection) writeWatched(p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		var m int
		c.pieces.Add(1)
		m, err = c.Conn.Write(p[n:min(len(p), n+writePiece)])
		c.pieces.Add(1)
		n += m
	}
	return n, err
}

// errorHeaders are what package http puts after the status line of its own
// errors.
var errorHeaders = []byte("Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// unreadable is the code for an answer that package http made by itself, or "".
func unreadable(p []byte) cache.Code {
	line, rest, ok := bytes.Cut(p, []byte("\r\n"))
	if !ok || len(line) < len("HTTP/1.1 417") {
		return ""
	}
	status := string(line[len("HTTP/1.1 "):][:3])
	if status == "417" { // no handler's, whatever its headers
		return errExpectation.Code
	}
	if !bytes.HasPrefix(rest, errorHeaders) {
		return ""
	}
	switch status {
	case "400":
		return errBadRequest.Code
	case "431":
		return errHeaderTooLarge.Code
	case "501":
		return errTransferCoding.Code
	case "505":
		return errHTTPVersion.Code
	}
	return ""
}
