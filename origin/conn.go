package origin

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// maxInterim bounds the 1xx answers before the final one.
	maxInterim = 5
	// bodyIdle is the longest wait for the next byte of a body. Only the load's
	// deadline bounds the wait for the head, because a slow origin is slow
	// there.
	bodyIdle = 5 * time.Second
	// recordWait bounds the wait for the rest of a TLS record after an answer.
	recordWait = 10 * time.Millisecond
)

var (
	errHeadTooLong = errors.New("the answer's headers are longer than max_header_bytes")
	errBodyTooLong = errors.New("the answer is longer than max_body_bytes")
	errLeftOver    = errors.New("bytes follow the answer")
	errNoAnswer    = errors.New("no answer")
)

// longAgo is a deadline in the past.
var longAgo = time.Unix(1, 0)

// conn is one connection to an endpoint. It serves one load at a time.
type conn struct {
	raw *counted // as dialled
	rw  net.Conn // raw, or TLS on top of it
	br  *bufio.Reader
	// head bounds the bytes of the heads of one exchange.
	head int64
	born time.Time
	used bool // it has served an earlier exchange

	// The fields below are about the current exchange.
	asked    time.Time // when the request was sent
	deadline time.Time
	idle     time.Duration // longest wait for a read; 0: only the deadline
	room     int64         // bytes that the head may still take
	answered bool          // a byte of the answer has arrived
	broke    error         // error of the last read; net/http hides it behind half a line

	// mu guards cut. A deadline that is set for a read must never undo an
	// interrupt.
	mu  sync.Mutex
	cut bool

	timer *time.Timer // closes the connection when it has been idle for keepIdle
}

func newConn(raw *counted, rw net.Conn, head int64) *conn {
	c := &conn{raw: raw, rw: rw, head: head, born: time.Now()}
	c.br = bufio.NewReaderSize(source{c}, 4096)
	return c
}

// arm sets the deadline of all reads and writes, unless they were interrupted.
func (c *conn) arm(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		t = longAgo
	}
	return c.raw.SetDeadline(t)
}

// interrupt ends all reads and writes for good. It does not close the
// connection, because only an open one can tell whether its request arrived.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	// A connection that refuses a deadline is already closed.
	if c.raw.SetDeadline(longAgo) != nil {
		c.raw.Close()
	}
}

// source is the reader below a conn's buffered reader.
type source struct{ c *conn }

func (s source) Read(p []byte) (int, error) {
	c := s.c
	if c.room <= 0 {
		c.broke = errHeadTooLong
		return 0, c.broke
	}
	until := c.deadline
	if c.idle > 0 {
		if t := time.Now().Add(c.idle); t.Before(until) {
			until = t
		}
	}
	if err := c.arm(until); err != nil {
		return 0, err
	}
	n, err := c.rw.Read(p[:min(int64(len(p)), c.room)])
	c.room -= int64(n)
	c.answered = c.answered || n > 0
	c.broke = err
	return n, err
}

// answer is an answer whose head has been read, and its connection.
type answer struct {
	*http.Response
	conn *conn
	stop func() bool
}

var get = &http.Request{Method: http.MethodGet}

// roundTrip sends a request and reads the head of its answer. seen reports
// whether the origin has seen the request, also after an error.
func (c *conn) roundTrip(ctx context.Context, request []byte) (a *answer, seen bool, err error) {
	c.asked = time.Now()
	c.deadline, _ = ctx.Deadline()
	c.idle, c.room, c.answered, c.broke = 0, c.head, false, nil
	stop := context.AfterFunc(ctx, c.interrupt)
	defer func() {
		if err != nil {
			stop()
			c.close()
		}
	}()
	if err := c.arm(c.deadline); err != nil {
		return nil, false, err
	}
	if _, err := c.rw.Write(request); err != nil {
		return nil, false, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	for range maxInterim {
		resp, err := http.ReadResponse(c.br, get)
		if err != nil && c.broke != nil {
			err = c.broke
		}
		switch {
		case err != nil && !c.answered:
			return nil, c.seen(err), fmt.Errorf("%w: %w", errNoAnswer, err)
		case err != nil:
			return nil, true, err
		case resp.ProtoMajor != 1:
			return nil, true, errors.New("the answer is not HTTP/1")
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, true, errors.New("the origin switches protocols unasked")
		case resp.StatusCode >= 200 || resp.StatusCode < 100: // not 1xx: this is the final answer
			if err := trimNames(resp.Header); err != nil {
				return nil, true, err
			}
			c.idle, c.room = bodyIdle, math.MaxInt64
			return &answer{Response: resp, conn: c, stop: stop}, true, nil
		}
	}
	return nil, true, errors.New("too many interim answers")
}

// trimNames removes blanks before the colon of a header, as a proxy must (RFC
// 9112 §5.1). net/http keeps them, so that "Cache-Control : no-store" would be
// an unknown header. But net/http has already read the body without such a
// header. So an answer with such a header about its length may have another
// body, and is refused.
func trimNames(h http.Header) error {
	for blank, values := range h {
		name := textproto.CanonicalMIMEHeaderKey(strings.TrimRight(blank, " "))
		switch {
		case len(name) == len(blank):
		case name == "Content-Length" || name == "Transfer-Encoding":
			return fmt.Errorf("a blank follows the name of the header %s", name)
		default:
			delete(h, blank)
			h[name] = append(h[name], values...)
		}
	}
	return nil
}

// seen reports whether an origin that gave no answer has seen the request,
// which was written whole. An acknowledgement by the origin's kernel is not
// enough: a server that closes an idle connection at that moment never reads
// the bytes. The way the connection ended tells more:
//
//   - The time was over, and the connection stands: the request has arrived or
//     will. Seen.
//   - An end of file that acknowledges less than the request: the server closed
//     before the request arrived. Not seen.
//   - An end of file that acknowledges all of it: the server has read the
//     request and gave up. Seen, unless a reset follows at once. A server that
//     shuts down its side first, or says goodbye in TLS, acknowledges bytes
//     that it then throws away unread.
//   - A reset of a kept connection: a kernel sends it when a process closes a
//     connection with unread bytes. Not seen. (A process can also ask for a
//     reset after it has read all. This is rare, and looks the same from here.)
//   - A reset of a new connection: this connection was never idle, so the
//     server has got the request and gave up. Seen.
func (c *conn) seen(err error) bool {
	end := failed
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // net/http turns an early io.EOF into the second
		end = closed
	case errors.Is(err, os.ErrDeadlineExceeded):
		end = c.raw.pending()
	}
	switch end {
	case closed:
		return c.raw.delivered() && !(c.used && c.raw.resetFollows())
	case failed:
		return !c.used
	}
	return true
}

// read reads the body, of at most limit bytes, into a slice without spare
// capacity. It checks that nothing follows the body.
func (a *answer) read(limit int64) ([]byte, error) {
	b, err := readBody(a.Body, a.ContentLength, limit)
	if err != nil {
		return nil, err
	}
	return b, a.end()
}

// end checks that nothing follows an answer that was read whole.
func (a *answer) end() error {
	switch a.conn.pending() {
	case noisy:
		return errLeftOver
	case closed, failed:
		a.Close = true
	}
	return nil
}

// firstRead bounds the first allocation: a Content-Length may lie.
const firstRead = 64 << 10

func readBody(r io.Reader, length, limit int64) ([]byte, error) {
	if length > limit {
		return nil, errBodyTooLong
	}
	most := limit
	if length >= 0 {
		most = length
	}
	b := make([]byte, 0, min(most, firstRead))
	for {
		if len(b) == cap(b) {
			if int64(len(b)) == most {
				return b, atEnd(r)
			}
			bigger := make([]byte, len(b), min(most, 2*int64(cap(b))))
			copy(bigger, b)
			b = bigger
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			exact := b
			if len(b) < cap(b) {
				exact = make([]byte, len(b))
				copy(exact, b)
			}
			return exact, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// atEnd checks that a body that has reached its limit has no more bytes.
func atEnd(r io.Reader) error {
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return errBodyTooLong
	case err != io.EOF:
		return err
	}
	return nil
}

// reusable ends the exchange after its body was read, and reports whether the
// connection may serve another one.
func (a *answer) reusable() bool {
	return a.stop() && !a.Close
}

// abandon closes the connection.
func (a *answer) abandon() {
	a.stop()
	a.conn.close()
}

// state is the state of a connection between exchanges.
type state uint8

const (
	quiet  state = iota
	noisy        // unexpected bytes
	closed       // by the other side
	failed       // reset, or closed on this side
)

// pending looks for bytes after an answer, in every buffer on their way here.
// It keeps one load's answer out of the next load's: a connection with anything
// in it is not used again.
func (c *conn) pending() state {
	if c.br.Buffered() > 0 {
		return noisy
	}
	secure, ok := c.rw.(*tls.Conn)
	if ok {
		// With a deadline in the past TLS returns what it has decrypted, but
		// reads nothing.
		if s := c.decrypted(secure, longAgo); s != quiet {
			return s
		}
	}
	if c.arm(time.Time{}) != nil {
		return failed
	}
	s := c.raw.pending()
	if ok && s == noisy {
		// A record has arrived. It may hold bytes of an answer or a message of
		// TLS itself, mostly the goodbye of a server that closes. In either
		// case, and if it is incomplete, this connection is not used again.
		if s = c.decrypted(secure, time.Now().Add(recordWait)); s == quiet {
			s = closed
		}
	}
	return s
}

// decrypted looks for bytes, or the end, in what TLS can decrypt until then.
func (c *conn) decrypted(t *tls.Conn, by time.Time) state {
	if c.raw.SetDeadline(by) != nil {
		return failed
	}
	var b [1]byte
	switch n, err := t.Read(b[:]); {
	case n > 0:
		return noisy
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return closed
	}
	return quiet
}

// close closes the connection below TLS. A connection that is given up needs no
// goodbye, and sending one could block.
func (c *conn) close() { c.raw.Close() }
