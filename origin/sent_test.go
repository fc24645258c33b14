package origin_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/node/nodetest"
	"kring/origin"
)

// The books: what loads say they sent is what origins saw, whatever happens to
// connections.

func TestNobodyThere(t *testing.T) {
	s := start(t, "/{key}", []string{"http://" + nodetest.FreeAddress(t)}, ejectAtOnce)
	r := s.load(t, "k", nil)
	r.mustFail(t, cache.ErrOriginFailed)
	if r.sent != 0 || s.healthy("a") {
		t.Errorf("sent %d, endpoint healthy %v; want 0, false", r.sent, s.healthy("a"))
	}
}

// A server may close a connection while it is idle: the next load does not
// use it, and is neither an error nor two requests.
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

// hookedConn does something just before it writes.
type hookedConn struct {
	*net.TCPConn
	before func()
}

func (c hookedConn) Write(p []byte) (int, error) {
	c.before()
	return c.TCPConn.Write(p)
}

// The race that any client loses now and then: the server closes a connection
// when the next request is about to be written. The request was not seen, so
// it is sent again, and counted once.
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

// A request that was read on a reused connection, and then not answered, was
// seen: it is counted, and not sent again behind the budget's back.
func TestServerClosesAfterReading(t *testing.T) {
	for _, how := range []string{"close", "reset"} {
		l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
			if n%2 == 1 {
				return say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
			}
			if how == "reset" {
				reset(t, c)
			}
			return false
		})
		s := start(t, "/{key}", []string{l.url})
		for i := range int64(10) {
			s.load(t, "k", nil).mustBe(t, "a")
			r := s.load(t, "k", nil)
			r.mustFail(t, cache.ErrOriginFailed)
			if r.sent != 1 || l.requests.Load() != 2*(i+1) || l.connections.Load() != i+1 {
				t.Fatalf("%s: sent %d, %d requests on %d connections, want 1, %d, %d", how, r.sent, l.requests.Load(), l.connections.Load(), 2*(i+1), i+1)
			}
		}
	}
}

// In every kind of weather the sum of what loads say is what origins saw, and
// every pick and slot is given back (L8). (Connections are closed with notice
// here: without, a request may arrive just before the close, and be counted
// though nobody read it.)
func TestBooksInAllWeathers(t *testing.T) {
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

// A load that panics gives back what it holds, and does not go unnoticed.
func TestPanicGivesEverythingBack(t *testing.T) {
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
