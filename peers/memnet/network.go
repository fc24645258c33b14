// Package memnet is a network in memory, for tests: connections are buffered,
// obey deadlines, and block only on condition variables and channels, so that
// they work under testing/synctest. Faults are told by the names of hosts:
// what is held stays where it is until the release, a break closes connections,
// and a killed host is gone.
package memnet

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// Network joins listeners and dialers. The zero value is not usable: see New.
type Network struct {
	mu        sync.Mutex // guards all below
	listeners map[string]*listener
	conns     map[*conn]struct{}
	held      map[route]bool
}

// route is a direction between two hosts.
type route struct{ from, to string }

// New returns a network without hosts.
func New() *Network {
	return &Network{listeners: map[string]*listener{}, conns: map[*conn]struct{}{}, held: map[route]bool{}}
}

// Listen makes host reachable.
func (n *Network) Listen(host string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[host] != nil {
		return nil, &net.OpError{Op: "listen", Net: "mem", Addr: addr(host), Err: syscall.EADDRINUSE}
	}
	l := &listener{n: n, host: host, queue: make(chan net.Conn, 128), closed: make(chan struct{})}
	n.listeners[host] = l
	return l, nil
}

// Dialer returns the function with which host opens connections.
func (n *Network) Dialer(host string) func(ctx context.Context, to string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		l := n.listeners[to]
		if l == nil {
			return nil, &net.OpError{Op: "dial", Net: "mem", Addr: addr(to), Err: syscall.ECONNREFUSED}
		}
		there, back := newPipe(), newPipe()
		mine := &conn{n: n, local: host, remote: to, in: back, out: there}
		theirs := &conn{n: n, local: to, remote: host, in: there, out: back}
		select {
		case l.queue <- theirs:
		default:
			return nil, &net.OpError{Op: "dial", Net: "mem", Addr: addr(to), Err: syscall.ETIMEDOUT}
		}
		there.hold(n.held[route{host, to}])
		back.hold(n.held[route{to, host}])
		n.conns[mine], n.conns[theirs] = struct{}{}, struct{}{}
		return mine, nil
	}
}

// Hold keeps what from sends to to, until Release. Nothing is lost.
func (n *Network) Hold(from, to string) { n.setHeld(from, to, true) }

// Release delivers what Hold has kept.
func (n *Network) Release(from, to string) { n.setHeld(from, to, false) }

func (n *Network) setHeld(from, to string, held bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held[route{from, to}] = held
	for c := range n.conns {
		if c.local == from && c.remote == to {
			c.out.hold(held)
		}
		if c.local == to && c.remote == from { // the other end may be closed
			c.in.hold(held)
		}
	}
}

// Break closes all connections between two hosts.
func (n *Network) Break(a, b string) {
	for _, c := range n.of(func(c *conn) bool { return c.local == a && c.remote == b || c.local == b && c.remote == a }) {
		c.Close()
	}
}

// Kill closes a host's listener and all its connections, as the end of its
// process would.
func (n *Network) Kill(host string) {
	n.mu.Lock()
	l := n.listeners[host]
	n.mu.Unlock()
	if l != nil {
		l.Close()
	}
	own := n.of(func(c *conn) bool { return c.local == host })
	for _, c := range own {
		c.in.end(net.ErrClosed) // a process that has ended reads nothing more
	}
	for _, c := range own {
		c.Close()
	}
}

func (n *Network) of(match func(*conn) bool) []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*conn
	for c := range n.conns {
		if match(c) {
			found = append(found, c)
		}
	}
	return found
}

type addr string

func (addr) Network() string  { return "mem" }
func (a addr) String() string { return string(a) }

type listener struct {
	n      *Network
	host   string
	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		delete(l.n.listeners, l.host)
		l.n.mu.Unlock()
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.host) }
