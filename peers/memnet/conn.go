package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// room is how many bytes one direction of a connection takes before writers
// wait, like a socket's buffers.
const room = 256 << 10

// conn is one end of a connection.
type conn struct {
	n             *Network
	local, remote string
	in, out       *pipe
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }
func (c *conn) LocalAddr() net.Addr         { return addr(c.local) }
func (c *conn) RemoteAddr() net.Addr        { return addr(c.remote) }

// Unread is what sockets.Unread says of c: a network in memory has no socket to
// look at.
func (c *conn) Unread() (n int, err error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	switch {
	case c.in.held:
		return 0, nil
	case len(c.in.bytes) > 0:
		return len(c.in.bytes), nil
	}
	return 0, c.in.ended
}

func (c *conn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	c.out.end(io.EOF)
	c.in.end(net.ErrClosed)
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	c.out.writing.set(c.out, t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error  { c.in.reading.set(c.in, t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.out.writing.set(c.out, t); return nil }

// pipe is one direction of a connection.
type pipe struct {
	mu      sync.Mutex // guards all below
	change  *sync.Cond
	bytes   []byte
	held    bool
	ended   error // what a reader gets when bytes are gone
	reading deadline
	writing deadline
}

// deadline wakes a pipe when its time has come.
type deadline struct {
	timer *time.Timer
	at    time.Time
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) set(p *pipe, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), func() {
			p.mu.Lock() // else a reader between its look and its wait sleeps on
			defer p.mu.Unlock()
			p.change.Broadcast()
		})
	}
	p.change.Broadcast()
}

func newPipe() *pipe {
	p := &pipe{}
	p.change = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.ended == net.ErrClosed:
			return 0, net.ErrClosed
		case p.reading.passed():
			return 0, os.ErrDeadlineExceeded
		case p.held:
		case len(p.bytes) > 0:
			n := copy(b, p.bytes)
			p.bytes = p.bytes[n:]
			p.change.Broadcast()
			return n, nil
		case p.ended != nil:
			return 0, p.ended
		}
		p.change.Wait()
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		switch {
		case p.ended != nil:
			return written, io.ErrClosedPipe
		case p.writing.passed():
			return written, os.ErrDeadlineExceeded
		case len(p.bytes) < room:
			n := min(len(b), room-len(p.bytes))
			p.bytes = append(p.bytes, b[:n]...)
			b = b[n:]
			written += n
			p.change.Broadcast()
			if len(b) == 0 {
				return written, nil
			}
			continue
		}
		p.change.Wait()
	}
}

func (p *pipe) hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.change.Broadcast()
}

// end ends the pipe: for io.EOF what was written may still be read.
func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil || err == net.ErrClosed {
		p.ended = err
	}
	p.change.Broadcast()
}
