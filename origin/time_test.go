package origin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

// piped gives an origin a server in memory for each connection that it dials: a
// synctest bubble can only wait for those.
func piped(t *testing.T, dials *atomic.Int64, answer func(c net.Conn, r *http.Request) bool) change {
	return func(_ *balance.Config, o *origin.Options) {
		o.Dial = func(ctx context.Context, _, addr string) (net.Conn, error) {
			dials.Add(1)
			if addr == "hangs.test:http" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				br := bufio.NewReader(there)
				for {
					r, err := http.ReadRequest(br)
					if err != nil || !answer(there, r) {
						return
					}
				}
			}()
			return here, nil
		}
	}
}

func TestTimeLimits(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
	drip := func(every time.Duration, first, text string) func(net.Conn, *http.Request) bool {
		return func(c net.Conn, _ *http.Request) bool {
			if _, err := fmt.Fprint(c, first); err != nil {
				return false
			}
			for i := range len(text) {
				time.Sleep(every)
				if _, err := c.Write([]byte{text[i]}); err != nil {
					return false
				}
			}
			time.Sleep(time.Hour)
			return false
		}
	}
	for _, tt := range []struct {
		name  string
		url   string
		does  func(net.Conn, *http.Request) bool
		takes time.Duration
		sent  int32
	}{
		{"hangs", "http://a.test", drip(time.Hour, "", "x"), 10 * time.Second, 1},
		{"drips its head", "http://a.test", drip(time.Second, "", head), 10 * time.Second, 1},
		{"drips its body", "http://a.test", drip(time.Second, head, "more than ten bytes"), 10 * time.Second, 1},
		{"stops in its body", "http://a.test", func(c net.Conn, _ *http.Request) bool {
			fmt.Fprint(c, head+"stops")
			time.Sleep(time.Hour)
			return false
		}, 5 * time.Second, 1},
		{"never connects", "http://hangs.test", nil, 3 * time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials atomic.Int64
				s := start(t, "/{key}", []string{tt.url}, ejectAtOnce, piped(t, &dials, tt.does))
				begin := time.Now()
				r := s.load(t, "k", nil)
				r.mustFail(t, cache.ErrOriginTimeout)
				if took := time.Since(begin); took != tt.takes || r.sent != tt.sent || s.healthy("a") {
					t.Errorf("took %v, sent %d, healthy %v; want %v, %d, false", took, r.sent, s.healthy("a"), tt.takes, tt.sent)
				}
				time.Sleep(2 * time.Hour) // time for the servers to end
			})
		})
	}
}

func TestSlowIsNotBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test"}, ejectAtOnce, piped(t, &dials, func(c net.Conn, _ *http.Request) bool {
			time.Sleep(6 * time.Second) // longer than a body may pause
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
			for range 2 {
				time.Sleep(time.Second)
				c.Write([]byte("x"))
			}
			return true
		}))
		for range 2 { // the second load is on a kept connection after a body
			s.load(t, "k", nil).mustBe(t, "xx")
		}
		if !s.healthy("a") {
			t.Error("a slow endpoint was blamed")
		}
	})
}

// A load without a deadline gets one. A longer deadline is kept.
func TestLongestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test"}, piped(t, &dials, func(net.Conn, *http.Request) bool {
			time.Sleep(time.Hour)
			return false
		}))
		begin := time.Now()
		s.loadIn(context.Background(), "k", nil).mustFail(t, cache.ErrOriginTimeout)
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("took %v, want a minute", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		begin = time.Now()
		s.loadIn(ctx, "k", nil).mustFail(t, cache.ErrOriginTimeout)
		if took := time.Since(begin); took != 5*time.Minute {
			t.Errorf("took %v, want the five minutes it was given", took)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestCancelledLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test", "http://b.test"}, ejectAtOnce, piped(t, &dials, func(net.Conn, *http.Request) bool {
			time.Sleep(time.Hour)
			return false
		}))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		r := s.loadIn(ctx, "k", nil)
		if !errors.Is(r.err, cache.ErrOriginFailed) || !errors.Is(r.err, context.Canceled) {
			t.Errorf("error %v", r.err)
		}
		if took := time.Since(begin); took != time.Second || r.sent != 1 || !s.healthy("a") || dials.Load() != 1 {
			t.Errorf("took %v, sent %d, healthy %v, %d dials; want 1s, 1, true, 1: no endpoint is to blame", took, r.sent, s.healthy("a"), dials.Load())
		}
		r = s.loadIn(ctx, "k", nil)
		if r.err == nil || r.sent != 0 || dials.Load() != 1 {
			t.Errorf("a load that was over before it began: %v, sent %d", r.err, r.sent)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials, open atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test"}, piped(t, &dials, func(c net.Conn, _ *http.Request) bool {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
			return true
		}), func(_ *balance.Config, o *origin.Options) {
			dial := o.Dial
			o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := dial(ctx, network, addr)
				open.Add(1)
				return closeHook{c, func() { open.Add(-1) }}, err
			}
		})
		s.load(t, "k", nil).mustBe(t, "a")
		time.Sleep(29 * time.Second)
		s.load(t, "k", nil).mustBe(t, "a")
		if dials.Load() != 1 || open.Load() != 1 {
			t.Errorf("%d dials, %d open, want one connection used twice", dials.Load(), open.Load())
		}
		time.Sleep(20 * time.Second)
		if open.Load() != 1 {
			t.Error("a connection was closed 20 s after its last use")
		}
		time.Sleep(11 * time.Second)
		if open.Load() != 0 {
			t.Error("a connection is open after 31 s without use")
		}
		s.load(t, "k", nil).mustBe(t, "a")
		if dials.Load() != 2 || open.Load() != 1 {
			t.Errorf("%d dials, %d open; want 2, 1", dials.Load(), open.Load())
		}
		if err := s.origin.Close(); err != nil || open.Load() != 0 {
			t.Errorf("close: %v, %d open", err, open.Load())
		}
		s.load(t, "k", nil).mustBe(t, "a") // a load in flight goes on
		if open.Load() != 0 {
			t.Error("a connection was kept after Close")
		}
	})
}

type closeHook struct {
	net.Conn
	closed func()
}

func (c closeHook) Close() error {
	c.closed()
	return c.Conn.Close()
}

// Loads beyond max_loads fail at once and send nothing. Slots are released.
func TestMaxLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test"}, piped(t, &dials, func(c net.Conn, _ *http.Request) bool {
			time.Sleep(5 * time.Second)
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
			return true
		}), func(_ *balance.Config, o *origin.Options) { o.Config.MaxLoads = 3 })
		results := make(chan result, 10)
		begin := time.Now()
		for range 10 {
			go func() { results <- s.load(t, "k", nil) }()
		}
		synctest.Wait()
		for range 7 {
			r := <-results
			r.mustFail(t, cache.ErrOverloaded)
			if r.sent != 0 || time.Since(begin) != 0 {
				t.Errorf("sent %d after %v, want nothing, at once", r.sent, time.Since(begin))
			}
		}
		if n := s.pool.Status().Endpoints[0].Assigned; n != 3 {
			t.Errorf("%d assigned, want 3", n)
		}
		for range 3 {
			(<-results).mustBe(t, "a")
		}
		s.load(t, "k", nil).mustBe(t, "a")
	})
}

// A server that accepts a connection and never speaks TLS costs as much as an
// unreachable one, and its connection is closed.
func TestSilentTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		s := start(t, "/{key}", []string{"https://a.test"}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					defer there.Close()
					_, _ = io.Copy(io.Discard, there) // until the other side closes
				}()
				open.Add(1)
				return closeHook{here, sync.OnceFunc(func() { open.Add(-1) })}, nil
			}
		})
		begin := time.Now()
		r := s.load(t, "k", nil)
		r.mustFail(t, cache.ErrOriginTimeout)
		if took := time.Since(begin); took != 3*time.Second || r.sent != 0 || open.Load() != 0 || s.healthy("a") {
			t.Errorf("took %v, sent %d, %d open, healthy %v; want 3s, 0, 0, false", took, r.sent, open.Load(), s.healthy("a"))
		}
	})
}

// A slow answer on a kept connection is no reason for another request: a slow
// endpoint is asked once.
func TestSlowOnAKeptConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials, requests atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test", "http://b.test"}, func(b *balance.Config, _ *origin.Options) { b.Endpoints[1].Weight = 0 },
			piped(t, &dials, func(c net.Conn, _ *http.Request) bool {
				if requests.Add(1) == 2 {
					time.Sleep(time.Hour)
				}
				_, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
				return err == nil
			}))
		s.load(t, "k", nil).mustBe(t, "a")
		r := s.load(t, "k", nil)
		r.mustFail(t, cache.ErrOriginTimeout)
		if r.sent != 1 || dials.Load() != 1 || !strings.Contains(r.err.Error(), "did not answer in time") {
			t.Errorf("sent %d, %d dials, %v; want 1, 1 and that the endpoint did not answer", r.sent, dials.Load(), r.err)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials, probes atomic.Int64
		var status atomic.Int64
		status.Store(204)
		s := start(t, "/{key}", []string{"http://a.test/base/", "http://b.test"}, func(b *balance.Config, _ *origin.Options) {
			b.Health.Probe, b.Health.MaxFails = "/health?deep=1", 2
			b.MaxEjected = 0.5
		}, piped(t, &dials, func(c net.Conn, r *http.Request) bool {
			want := "/health?deep=1"
			if r.Host == "a.test" {
				want = "/base" + want
			}
			if r.RequestURI != want || r.Header.Get("X-Token") != "secret" {
				t.Errorf("probe asks %s for %s", r.Host, r.RequestURI)
			}
			probes.Add(1)
			code := 200
			if r.Host == "a.test" {
				code = int(status.Load())
			}
			fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", code)
			return true
		}), func(_ *balance.Config, o *origin.Options) {
			o.Config.Headers = []origin.HeaderConfig{{Name: "X-Token", Value: "secret"}}
		})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if !s.healthy("a") || probes.Load() < 8 {
			t.Fatalf("%d probes, healthy %v", probes.Load(), s.healthy("a"))
		}
		status.Store(302)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if s.healthy("a") {
			t.Error("two failed probes have not ejected the endpoint")
		}
		status.Store(200)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if !s.healthy("a") {
			t.Error("a good probe has not brought the endpoint back")
		}
	})
}

// A load says when it sent the request that was answered, not when it dialled
// or asked another endpoint.
func TestALoadSaysWhenItSentTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := start(t, "/{key}", []string{"http://a.test", "http://b.test"}, neverEject, piped(t, &dials, func(c net.Conn, r *http.Request) bool {
			time.Sleep(3 * time.Second)
			if r.Host == "a.test" {
				fmt.Fprint(c, "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")
				return true
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
			time.Sleep(time.Second)
			fmt.Fprint(c, "v")
			return true
		}), func(_ *balance.Config, o *origin.Options) {
			dial := o.Dial
			o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				time.Sleep(time.Second)
				return dial(ctx, network, addr)
			}
		})
		began := time.Now()
		r := s.load(t, "k", nil)
		r.mustBe(t, "v")
		if after := r.Asked.Sub(began); r.sent != 2 || after != 5*time.Second || time.Since(began) != 9*time.Second {
			t.Errorf("sent %d, the last after %v of %v; want 2, 5s of 9s", r.sent, after, time.Since(began))
		}
		time.Sleep(time.Second)
		r = s.load(t, "k", nil)
		r.mustBe(t, "v")
		if took := time.Since(r.Asked); took != 4*time.Second { // on a kept connection
			t.Errorf("asked %v ago", took)
		}
	})
}
