package origin

import (
	"io"
	"net"
	"time"

	"kring/internal/sockets"
)

const (
	// resetWait is how long a reset may take to follow the end of a connection.
	// It is longer than a server needs from one system call to the next.
	resetWait = 50 * time.Millisecond
	resetPoll = time.Millisecond
)

// counted is a dialled connection that counts the bytes written to it, so that
// it can tell whether all have arrived: see conn.seen.
type counted struct {
	net.Conn
	written uint64
	// acked is what the other side had acknowledged before the first write: the
	// SYN counts.
	acked uint64
}

func newCounted(c net.Conn) *counted {
	n := &counted{Conn: c}
	n.acked, _ = sockets.Acknowledged(c)
	return n
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written += uint64(n)
	return n, err
}

// delivered reports whether the other side, which has closed the connection,
// had received all that was written. (While the connection stands this says
// nothing: acknowledgements are delayed.) Where this cannot be known, delivered
// returns true.
func (c *counted) delivered() bool {
	acked, ok := sockets.Acknowledged(c.Conn)
	return !ok || acked-c.acked >= c.written
}

// resetFollows reports whether the other side resets the connection just after
// the end of its stream: its process has closed the connection without reading
// all bytes.
func (c *counted) resetFollows() bool {
	for end := time.Now().Add(resetWait); ; time.Sleep(resetPoll) {
		reset, known := sockets.WasReset(c.Conn)
		if reset || !known || !time.Now().Before(end) {
			return reset
		}
	}
}

// pending looks into the kernel's buffer and takes nothing out.
func (c *counted) pending() state {
	switch n, err := sockets.Unread(c.Conn); {
	case n > 0:
		return noisy
	case err == nil:
		return quiet
	case err == io.EOF:
		return closed
	}
	return failed
}
