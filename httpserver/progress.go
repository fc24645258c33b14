package httpserver

import (
	"sync"
	"sync/atomic"
	"time"
)

// writePiece is how many bytes of a watched answer are written at a time.
const writePiece = 64 << 10

// progress is what a connection knows of how its client keeps up. The budgets
// ask it from other requests' goroutines.
type progress struct {
	// watched says that a budget of answers is charged with the answer, so the
	// connection follows how much of it the client takes. Only the server's
	// goroutine for the connection touches it.
	watched bool
	// reading is when the node began to wait for bytes of a body, on the clock
	// of since. It is 0 while the node does not wait.
	reading atomic.Int64
	// pieces counts the beginnings and the ends of the writes of a watched answer.
	// It is odd while the node waits for the client.
	pieces atomic.Uint64
	// taken is the state of the present write when somebody last looked at it.
	taken struct {
		mu     sync.Mutex // guards the rest
		pieces uint64
		bytes  uint64
		at     time.Time // when pieces or bytes last rose
	}
}

// start is where the clock of since begins.
var start = time.Now()

// since is the time on a monotonic clock, and never 0.
func since(t time.Time) time.Duration { return t.Sub(start) + 1 }

// writeWatched writes in pieces, so that the client's progress can be seen
// between them.
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

// stalled is how long the client has been seen to take nothing of the present
// answer.
func (c *connection) stalled(now time.Time) time.Duration {
	pieces := c.pieces.Load()
	if pieces%2 == 0 {
		return 0
	}
	bytes := acknowledged(c.Conn)
	t := &c.taken
	t.mu.Lock()
	defer t.mu.Unlock()
	if pieces != t.pieces || bytes != t.bytes {
		t.pieces, t.bytes, t.at = pieces, bytes, now
	}
	return now.Sub(t.at)
}

// silent is how long the client has sent nothing of a body that the node waits
// for.
func (c *connection) silent(now time.Time) time.Duration {
	if reading := c.reading.Load(); reading > 0 {
		return since(now) - time.Duration(reading)
	}
	return 0
}

// quiet is how long the client has neither sent what the node waits for nor
// taken what the node writes.
func (c *connection) quiet(now time.Time) time.Duration { return max(c.silent(now), c.stalled(now)) }

// cut ends the writing of an answer.
func (c *connection) cut() { _ = c.Conn.Close() }

// end ends whatever the node waits for: the read of a body, or the write of an
// answer.
func (c *connection) end() {
	if c.reading.Load() > 0 {
		_ = c.Conn.SetReadDeadline(start)
	} else {
		c.cut()
	}
}
