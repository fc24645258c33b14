//go:build linux

package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// histogramMax is the longest latency that the histogram distinguishes, in
// microseconds.
const histogramMax = 60_000_000

// loop is one thread and its connections.
type loop struct {
	epoll  int
	cpu    int
	count  int
	random *rand.Rand
	buf    []byte
	conns  map[int32]*conn // by descriptor

	flying     int // connections that wait for an answer
	right      int64
	wrong      int64
	reconnects int64
	sample     error
	last       time.Time // time of the last answer
	latency    *hdrhistogram.Histogram
}

// conn is one connection.
type conn struct {
	fd      int
	target  *Target
	addr    netip.AddrPort
	parser  parser
	request *Request
	unsent  []byte
	begun   time.Time
	sent    int // requests
}

func newLoop(cfg Config, i int) (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("drive: epoll: %w", err)
	}
	return &loop{
		epoll: fd, cpu: cfg.CPU, count: cfg.Count, random: rand.New(rand.NewPCG(cfg.Seed, uint64(i))),
		buf: make([]byte, 256<<10), conns: map[int32]*conn{}, latency: hdrhistogram.New(1, histogramMax, 3),
	}, nil
}

// open makes a connection and sends nothing yet.
func (l *loop) open(t *Target, addr netip.AddrPort) error {
	c := &conn{target: t, addr: addr}
	if err := c.dial(); err != nil {
		return err
	}
	return l.watch(c)
}

// watch registers a connection with the loop's epoll.
func (l *loop) watch(c *conn) error {
	l.conns[int32(c.fd)] = c
	return l.control(unix.EPOLL_CTL_ADD, c, unix.EPOLLIN)
}

func (l *loop) control(op int, c *conn, events uint32) error {
	return unix.EpollCtl(l.epoll, op, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.fd)})
}

func (c *conn) dial() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(c.addr.Port()), Addr: c.addr.Addr().As4()})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	c.fd = fd
	return nil
}

// run sends and receives until the time is over and no request is in flight.
func (l *loop) run(ctx context.Context, until time.Time) {
	// The pinned thread must not be used again, so it ends with this goroutine.
	runtime.LockOSThread()
	if l.cpu >= 0 {
		var set unix.CPUSet
		set.Set(l.cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			l.fail(fmt.Errorf("pin to CPU %d: %w", l.cpu, err))
			return
		}
	} else {
		defer runtime.UnlockOSThread()
	}
	for _, c := range l.conns {
		l.next(c)
	}
	events := make([]unix.EpollEvent, 256)
	for l.flying > 0 {
		n, err := unix.EpollWait(l.epoll, events, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			l.fail(fmt.Errorf("epoll: %w", err))
			return
		}
		more := time.Now().Before(until) && ctx.Err() == nil
		if !more && time.Since(until) > drainTime {
			l.wrong += int64(l.flying)
			l.sample = fmt.Errorf("%d answers did not come within %v of the run's end", l.flying, drainTime)
			return
		}
		for i := range max(n, 0) {
			c := l.conns[events[i].Fd]
			if c == nil {
				continue
			}
			l.handle(c, events[i].Events, more)
		}
	}
}

// handle reads and writes what a connection is ready for.
func (l *loop) handle(c *conn, events uint32, more bool) {
	if events&unix.EPOLLOUT != 0 {
		l.send(c)
	}
	if events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return
	}
	done, err := l.receive(c)
	switch {
	case err != nil:
		if !l.drop(c, err) {
			return
		}
	case !done:
		return
	default:
		now := time.Now()
		l.last = now
		l.flying--
		if err := c.request.check(&c.parser); err != nil {
			l.fail(fmt.Errorf("%.80q: %w", c.request.Bytes, err))
		} else {
			l.right++
			// RecordValue fails only outside the histogram's range.
			_ = l.latency.RecordValue(min(now.Sub(c.begun).Microseconds(), histogramMax))
		}
		c.request = nil
		if c.parser.closes {
			l.reconnects++
			if !l.reopen(c) {
				return
			}
		}
	}
	if more && (l.count == 0 || c.sent < l.count) {
		l.next(c)
	}
}

// receive reads the available bytes.
func (l *loop) receive(c *conn) (done bool, err error) {
	n, err := unix.Read(c.fd, l.buf)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, err
	case n == 0:
		return false, io.ErrUnexpectedEOF
	case c.request == nil:
		return false, errors.New("bytes after the answer")
	}
	return c.parser.feed(l.buf[:n])
}

// next sends a connection's next request.
func (l *loop) next(c *conn) {
	if c.target.Next != nil {
		c.request = c.target.Next()
	} else {
		c.request = &c.target.Requests[l.random.IntN(len(c.target.Requests))]
	}
	c.parser.keep = len(c.request.Mark) > 0
	c.parser.reset()
	c.unsent = c.request.Bytes
	c.begun = time.Now()
	c.sent++
	l.flying++
	l.send(c)
}

// send writes as much of a request as the socket accepts; the rest waits.
// Errors are left to the reading side, which sees them as well.
func (l *loop) send(c *conn) {
	waited := len(c.unsent) < len(c.request.Bytes)
	n, err := unix.Write(c.fd, c.unsent)
	if err == nil {
		c.unsent = c.unsent[n:]
	}
	switch {
	case len(c.unsent) > 0 && !waited:
		err = l.control(unix.EPOLL_CTL_MOD, c, unix.EPOLLIN|unix.EPOLLOUT)
	case len(c.unsent) == 0 && waited:
		err = l.control(unix.EPOLL_CTL_MOD, c, unix.EPOLLIN)
	default:
		return
	}
	if err != nil {
		l.fail(fmt.Errorf("epoll: %w", err))
	}
}

// drop closes a broken connection, gives up its request, and opens another.
func (l *loop) drop(c *conn, err error) bool {
	if c.request != nil {
		l.flying--
	}
	l.fail(fmt.Errorf("connection to %s: %w", c.addr, err))
	return l.reopen(c)
}

// reopen replaces a connection. On failure the loop goes on without it.
func (l *loop) reopen(c *conn) bool {
	delete(l.conns, int32(c.fd))
	err := unix.Close(c.fd)
	if err == nil {
		c.request = nil
		if err = c.dial(); err == nil {
			err = l.watch(c)
		}
	}
	if err != nil {
		l.fail(fmt.Errorf("connect to %s again: %w", c.addr, err))
		return false
	}
	return true
}

func (l *loop) fail(err error) {
	l.wrong++
	if l.sample == nil {
		l.sample = err
	}
}

func (l *loop) close() error {
	errs := []error{unix.Close(l.epoll)}
	for _, c := range l.conns {
		errs = append(errs, unix.Close(c.fd))
	}
	return errors.Join(errs...)
}
