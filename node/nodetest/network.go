package nodetest

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// network is the loopback network of a cluster. It makes faults like those of
// memnet, and has their names: hold, release and kill.
type network struct {
	t     testing.TB
	mu    sync.Mutex // guards the fields below
	hosts map[string]*host
}

// host is one node's end of the network.
type host struct {
	name     string
	listener net.Listener

	mu     sync.Mutex // guards the fields below
	conns  map[*conn]struct{}
	killed bool
	held   chan struct{} // closed by the release; nil when the host is not held
	cut    map[string]bool
}

var errKilled = errors.New("nodetest: the host is killed")

func newNetwork(t testing.TB) *network { return &network{t: t, hosts: map[string]*host{}} }

// host makes a host that listens on a free port of 127.0.0.1, or on the
// address of its killed predecessor.
func (n *network) host(name string) (*host, error) {
	n.mu.Lock()
	old := n.hosts[name]
	n.mu.Unlock()
	address := ""
	if old != nil {
		address = old.listener.Addr().String()
	} else {
		address = FreeAddress(n.t) // reserved, so that the host can come back there
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	h := &host{name: name, listener: l, conns: map[*conn]struct{}{}, cut: map[string]bool{}}
	n.mu.Lock()
	n.hosts[name] = h
	n.mu.Unlock()
	return h, nil
}

// named is the host that listens at an address, or nil.
func (n *network) named(address string) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hosts {
		if h.listener.Addr().String() == address {
			return h
		}
	}
	return nil
}

func (h *host) listen(string, string) (net.Listener, error) { return hostListener{h.listener, h}, nil }

// dial makes the dialler of a node on this host.
func (n *network) dial(h *host) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, netw, address string) (net.Conn, error) {
		if to := n.named(address); to != nil && h.isCut(to.name) {
			return nil, errors.New("nodetest: no route to " + to.name)
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, netw, address)
		if err != nil {
			return nil, err
		}
		return h.adopt(c)
	}
}

func (h *host) isCut(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut[name]
}

func (h *host) adopt(c net.Conn) (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.killed {
		_ = c.Close() // the host is gone: nobody is left to tell
		return nil, errKilled
	}
	w := &conn{Conn: c, host: h, closed: make(chan struct{})}
	h.conns[w] = struct{}{}
	return w, nil
}

// kill closes the listener and every connection at once.
func (h *host) kill() {
	h.mu.Lock()
	h.killed = true
	conns := h.conns
	h.conns = map[*conn]struct{}{}
	if h.held != nil {
		close(h.held)
		h.held = nil
	}
	h.mu.Unlock()
	_ = h.listener.Close() // it is closed on purpose
	for c := range conns {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a killed process loses its unsent bytes
		}
		_ = c.Close()
	}
}

// hold stops all traffic of the host until release.
func (h *host) hold() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := make(chan struct{})
	h.held = ch
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.held == ch {
			close(ch)
			h.held = nil
		}
	})
}

func (h *host) holding() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

type hostListener struct {
	net.Listener
	host *host
}

func (l hostListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if w, err := l.host.adopt(c); err == nil {
			return w, nil
		}
	}
}

// conn is a connection whose reads and writes stop while its host is held.
type conn struct {
	net.Conn
	host   *host
	once   sync.Once
	closed chan struct{}
}

func (c *conn) wait() {
	if held := c.host.holding(); held != nil {
		select {
		case <-held:
		case <-c.closed:
		}
	}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wait() // what arrived while the host was held is seen after the release
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.wait()
	if c.host.isKilled() {
		return 0, errKilled // a killed process answers nobody, while its connections close one by one
	}
	return c.Conn.Write(b)
}

// SyscallConn lets the origin's loader look at the socket, as on an unwrapped
// connection.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return sc.SyscallConn()
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.host.mu.Lock()
	delete(c.host.conns, c)
	c.host.mu.Unlock()
	return c.Conn.Close()
}

// poll is the time between two looks at a condition, and patience is the
// longest wait. A busy machine may need half a minute for a moment's work. A
// test that waits in vain must still end before go test's time-out, else its
// message would be lost.
const (
	poll     = 5 * time.Millisecond
	patience = 45 * time.Second
)
