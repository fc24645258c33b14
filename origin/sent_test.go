package origin_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/node/nodetest"
	"kring/origin"
)

// The books: the sum of l.Sent over all loads is what the origins saw, whatever
// happens to connections.

func TestUnreachableEndpoints(t *testing.T) {
	s := start(t, "/{key}", []string{"http://" + nodetest.FreeAddress(t)}, ejectAtOnce)
	r := s.load(t, "k", nil)
	r.mustFail(t, cache.ErrOriginFailed)
	if r.sent != 0 || s.healthy("a") {
		t.Errorf("sent %d, endpoint healthy %v; want 0, false", r.sent, s.healthy("a"))
	}
}

// A server may close an idle connection at any time. The next load does not use
// it: no error, and no second request.
func TestServerClosesIdleConnections(t *testing.T) {
	closing := make(chan net.Conn, 1)
	l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
		say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
		closing <- c
		return true
	})
	s := start(t, "/{key}", []string{l.url}, ejectAtOnce)
	for i := range int64(50) {
		r := s.load(t, "k", nil)
		r.mustBe(t, "a")
		if r.sent != 1 || l.requests.Load() != i+1 || l.connections.Load() != i+1 {
			t.Fatalf("load %d: sent %d, %d requests on %d connections", i+1, r.sent, l.requests.Load(), l.connections.Load())
		}
		(<-closing).Close()
	}
	if !s.healthy("a") {
		t.Error("the endpoint was blamed")
	}
}

// hookedConn calls a hook just before it writes.
type hookedConn struct {
	*net.TCPConn
	before func()
}

func (c hookedConn) Write(p []byte) (int, error) {
	c.before()
	return c.TCPConn.Write(p)
}

// Any client loses this race now and then: the server closes a connection while
// the next request is written. The server has not seen the request, so it is
// sent again and counted once.
func TestServerClosesWhileARequestIsOnItsWay(t *testing.T) {
	for _, byReset := range []bool{false, true} {
		var idle atomic.Pointer[net.TCPConn] // the server's side
		l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
			idle.Store(c.(*net.TCPConn))
			return say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
		})
		hang := func() {
			c := idle.Swap(nil)
			if c == nil {
				return
			}
			if byReset {
				reset(t, c)
			}
			c.Close()
		}
		s := start(t, "/{key}", []string{l.url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) {
			o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return hookedConn{c.(*net.TCPConn), hang}, nil
			}
		})
		for i := range int64(50) {
			r := s.load(t, "k", nil)
			r.mustBe(t, "a")
			if r.sent != 1 || l.requests.Load() != i+1 || l.connections.Load() != i+1 {
				t.Fatalf("load %d: sent %d, %d requests on %d connections", i+1, r.sent, l.requests.Load(), l.connections.Load())
			}
		}
		if !s.healthy("a") {
			t.Error("the endpoint was blamed")
		}
	}
}

// serverTLS is a certificate for 127.0.0.1, and the file with its authority.
func serverTLS(t testing.TB) (cfg *tls.Config, caFile string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS() // makes the certificate
	t.Cleanup(srv.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: srv.TLS.Certificates}, caFile
}

// awaitUnread waits until unread bytes, or the end, have arrived.
func awaitUnread(t testing.TB, c *net.TCPConn) {
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Error(err)
		return
	}
	rc, err := c.SyscallConn()
	if err == nil {
		err = rc.Read(func(fd uintptr) bool {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return err == nil
		})
	}
	if err != nil {
		t.Errorf("nothing came: %v", err)
	}
}

// timedOut is the answer of some servers when they close an idle connection.
const timedOut = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// A server closes a kept connection just when the next request arrives. The
// kernel has acknowledged the request, but the server has not read it. The
// request is sent again, at no cost to the budget, and counted once.
func TestServerClosesWithARequestUnread(t *testing.T) {
	secure, caFile := serverTLS(t)
	tcp := func(c net.Conn) *net.TCPConn {
		if s, ok := c.(*tls.Conn); ok {
			c = s.NetConn()
		}
		return c.(*net.TCPConn)
	}
	for _, tt := range []struct {
		name   string
		scheme string
		end    func(c net.Conn)
	}{
		{"close", "http", func(c net.Conn) { c.Close() }},
		{"reset", "http", func(c net.Conn) { reset(t, c) }},
		{"shutdown and close", "http", func(c net.Conn) { tcp(c).CloseWrite() }},
		{"408 and close", "http", func(c net.Conn) { fmt.Fprint(c, timedOut) }},
		{"TLS 408 and close", "https", func(c net.Conn) { fmt.Fprint(c, timedOut) }},
		{"TLS close", "https", func(c net.Conn) { c.Close() }},
		{"TLS cut", "https", func(c net.Conn) { tcp(c).Close() }},
		{"TLS shutdown and close", "https", func(c net.Conn) { c.(*tls.Conn).CloseWrite(); tcp(c).CloseWrite() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wrap := func(c net.Conn) net.Conn { return c }
			if tt.scheme == "https" {
				wrap = func(c net.Conn) net.Conn { return tls.Server(c, secure) }
			}
			const loads = 20
			l := lieOver(t, tt.scheme, wrap, func(c net.Conn, r *http.Request, n int64) bool {
				say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
				if n < loads {
					awaitUnread(t, tcp(c))
					tt.end(c)
				}
				return false
			})
			s := start(t, "/{key}", []string{l.url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) {
				o.Config.RetryBudget = 0
				if tt.scheme == "https" {
					o.Config.CAFile = caFile
				}
			})
			for i := range int64(loads) {
				r := s.load(t, "k", nil)
				r.mustBe(t, "a")
				if r.sent != 1 || l.requests.Load() != i+1 {
					t.Fatalf("load %d: sent %d, the origin saw %d requests", i+1, r.sent, l.requests.Load())
				}
			}
			if !s.healthy("a") {
				t.Error("the endpoint was blamed")
			}
		})
	}
}

// A server reads a request on a kept connection and closes without an answer.
// It gets the request once more, on a new connection, and both count.
func TestServerClosesAfterReading(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(c net.Conn)
	}{
		{"close", func(net.Conn) {}},
		{"an answer of no byte", func(c net.Conn) { c.(*net.TCPConn).CloseWrite() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
				if n%2 == 1 {
					return say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
				}
				tt.end(c)
				return false
			})
			s := start(t, "/{key}", []string{l.url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) { o.Config.RetryBudget = 0 })
			s.load(t, "k", nil).mustBe(t, "a")
			for i := range int64(5) {
				r := s.load(t, "k", nil)
				r.mustBe(t, "a")
				if r.sent != 2 || l.requests.Load() != 3+2*i || l.connections.Load() != 2+i {
					t.Fatalf("load %d: sent %d, %d requests on %d connections; want 2, %d, %d", i+2, r.sent, l.requests.Load(), l.connections.Load(), 3+2*i, 2+i)
				}
			}
			if !s.healthy("a") {
				t.Error("the endpoint was blamed")
			}
		})
	}
}

// A 408 to a request that the server has read is an answer, also on a kept
// connection.
func TestRequestTimeoutOfWhatWasRead(t *testing.T) {
	l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
		if n == 1 {
			return say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
		}
		return sayAndClose(timedOut)(c, r, n)
	})
	s := start(t, "/{key}", []string{l.url}, ejectAtOnce)
	s.load(t, "k", nil).mustBe(t, "a")
	r := s.load(t, "k", nil)
	r.mustFail(t, cache.ErrOriginFailed)
	if r.sent != 1 || l.requests.Load() != 2 || !s.healthy("a") {
		t.Errorf("sent %d, the origin saw %d requests, healthy %v; want 1, 2, true", r.sent, l.requests.Load(), s.healthy("a"))
	}
}

// Only a kept connection excuses the server. A request that failed on a new
// connection is not sent again by itself, and neither is one whose answer has
// begun.
func TestNotSentAgain(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
	for _, tt := range []struct {
		name   string
		answer func(c net.Conn, r *http.Request, n int64) bool
		before int // loads that succeed first
		err    *cache.Error
	}{
		{"closed without an answer, a new connection", sayAndClose(""), 0, cache.ErrOriginFailed},
		{"reset without an answer, a new connection", func(c net.Conn, _ *http.Request, _ int64) bool {
			reset(t, c)
			return false
		}, 0, cache.ErrOriginFailed},
		{"closed after a byte", func(c net.Conn, r *http.Request, n int64) bool {
			if n == 1 {
				return say(ok)(c, r, n)
			}
			return sayAndClose("H")(c, r, n)
		}, 1, cache.ErrOriginBadAnswer},
		{"closed after an interim answer", func(c net.Conn, r *http.Request, n int64) bool {
			if n == 1 {
				return say(ok)(c, r, n)
			}
			return sayAndClose("HTTP/1.1 103 Early Hints\r\n\r\n")(c, r, n)
		}, 1, cache.ErrOriginBadAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := lie(t, tt.answer)
			s := start(t, "/{key}", []string{l.url}, ejectAtOnce)
			for range tt.before {
				s.load(t, "k", nil).mustBe(t, "a")
			}
			r := s.load(t, "k", nil)
			r.mustFail(t, tt.err)
			if r.sent != 1 || l.requests.Load() != int64(tt.before)+1 || l.connections.Load() != 1 || s.healthy("a") {
				t.Errorf("sent %d, %d requests on %d connections, healthy %v; want one request on one connection, and the endpoint blamed",
					r.sent, l.requests.Load(), l.connections.Load(), s.healthy("a"))
			}
		})
	}
}

// A server that closes a new connection before the request arrives has seen
// nothing.
func TestServerClosesBeforeTheFirstRequest(t *testing.T) {
	l := lieOver(t, "http", func(c net.Conn) net.Conn {
		c.Close()
		return c
	}, say(""))
	s := start(t, "/{key}", []string{l.url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) {
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			tcp := c.(*net.TCPConn)
			return hookedConn{tcp, func() { awaitUnread(t, tcp) }}, nil
		}
	})
	r := s.load(t, "k", nil)
	r.mustFail(t, cache.ErrOriginFailed)
	if r.sent != 0 || s.healthy("a") {
		t.Errorf("sent %d, healthy %v; want 0, false", r.sent, s.healthy("a"))
	}
}

// All kept connections may be stale at once. Each is checked once at most, and
// the request goes to a new connection, not to the next stale one.
func TestAllKeptConnectionsAreStale(t *testing.T) {
	const many = 8
	var l *liar
	l = lie(t, func(c net.Conn, r *http.Request, n int64) bool {
		// The requests of a round are answered together, so that each has its
		// own connection.
		eventually(t, "all requests of a round", func() bool { return l.requests.Load() >= (n+many-1)/many*many || t.Context().Err() != nil })
		say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
		if n > many {
			return true
		}
		awaitUnread(t, c.(*net.TCPConn))
		return false
	})
	s := start(t, "/{key}", []string{l.url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) { o.Config.RetryBudget = 0 })
	var wg sync.WaitGroup
	for range 2 {
		for range many {
			wg.Go(func() {
				r := s.load(t, "k", nil)
				if r.err != nil || r.sent != 1 {
					t.Errorf("sent %d, error %v", r.sent, r.err)
				}
			})
		}
		wg.Wait()
	}
	if l.requests.Load() != 2*many || l.connections.Load() != 2*many || !s.healthy("a") {
		t.Errorf("%d requests on %d connections, healthy %v; want %d, %d, true", l.requests.Load(), l.connections.Load(), s.healthy("a"), 2*many, 2*many)
	}
}

// Servers close kept connections without notice, at the worst moments. No load
// fails, and the sum of l.Sent is what the servers handled.
func TestServersThatCloseWithoutAWord(t *testing.T) {
	var handled atomic.Int64
	impatient := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		handled.Add(1)
		fmt.Fprint(w, "a")
	}))
	impatient.Config.IdleTimeout = 100 * time.Microsecond // about as long as a load takes
	impatient.Start()
	t.Cleanup(impatient.Close)
	abrupt := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
		handled.Add(1)
		return sayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
	})
	for name, url := range map[string]string{"closes idle connections": impatient.URL, "closes after each answer": abrupt.url} {
		t.Run(name, func(t *testing.T) {
			handled.Store(0)
			s := start(t, "/{key}", []string{url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) { o.Config.RetryBudget = 0 })
			const workers, loads = 4, 600
			var sent, failed atomic.Int64
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for range loads {
						r := s.load(t, "k", nil)
						sent.Add(int64(r.sent))
						if r.err != nil {
							failed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if failed.Load() != 0 || sent.Load() != handled.Load() || handled.Load() != workers*loads {
				t.Errorf("%d of %d loads failed; sent %d, the server handled %d", failed.Load(), workers*loads, sent.Load(), handled.Load())
			}
		})
	}
}

// Under all kinds of failures the sum of l.Sent is what origins saw, and every
// pick and slot is released. (Connections are closed with notice here; for the
// other case see TestServersThatCloseWithoutAWord.)
func TestBooksUnderAllFailures(t *testing.T) {
	weather := func(c net.Conn, r *http.Request, n int64) bool {
		const value = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
		switch n % 8 {
		case 0:
			return say("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")(c, r, n)
		case 1:
			return sayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")(c, r, n)
		case 2:
			return sayAndClose("")(c, r, n)
		case 3:
			return sayAndClose("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")(c, r, n)
		case 4:
			return say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")(c, r, n)
		default:
			return say(value)(c, r, n)
		}
	}
	x, y := lie(t, weather), lie(t, weather)
	s := start(t, "/{key}", []string{x.url, y.url}, func(b *balance.Config, _ *origin.Options) { b.Health.MaxFails = 0 })
	var sent, overloaded, other atomic.Int64
	var wg sync.WaitGroup
	const workers, loads = 4, 300
	for w := range workers {
		wg.Go(func() {
			for i := range loads {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if i%10 == 0 {
					time.AfterFunc(time.Duration(i)*time.Microsecond, cancel)
				}
				r := s.loadIn(ctx, fmt.Sprint(w, i), nil)
				cancel()
				sent.Add(int64(r.sent))
				switch {
				case errors.Is(r.err, cache.ErrOverloaded):
					overloaded.Add(1)
				case r.err != nil && !errors.Is(r.err, cache.ErrOriginFailed) && !errors.Is(r.err, cache.ErrOriginBadAnswer):
					other.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if saw := x.requests.Load() + y.requests.Load(); sent.Load() != saw || saw < workers*loads/2 {
		t.Errorf("sent %d, the origins saw %d", sent.Load(), saw)
	}
	if overloaded.Load() > 0 || other.Load() > 0 {
		t.Errorf("%d overloaded, %d other errors", overloaded.Load(), other.Load())
	}
}

// A load that panics releases its pick and slot, and the panic goes on.
func TestAPanicReleasesPickAndSlot(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a") })
	var calm atomic.Bool
	s := start(t, "/{key}", []string{srv.URL}, func(_ *balance.Config, o *origin.Options) {
		o.Config.MaxLoads = 1
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !calm.Load() {
				panic("dial")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			s.load(t, "k", nil)
		}()
	}
	calm.Store(true)
	s.load(t, "k", nil).mustBe(t, "a")
}
