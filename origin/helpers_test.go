package origin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup is a pool and its origin under test.
type setup struct {
	pool   *balance.Pool
	origin *origin.Origin
	group  *origin.Group
}

// change adapts the configuration of a setup.
type change func(b *balance.Config, o *origin.Options)

// ejectAtOnce makes the first failure eject an endpoint.
func ejectAtOnce(b *balance.Config, _ *origin.Options) { b.Health.MaxFails = 1 }

// start makes an origin of endpoints a, b, … with these URLs.
func start(t testing.TB, path string, urls []string, changes ...change) *setup {
	t.Helper()
	cfg := balance.DefaultConfig()
	cfg.Name, cfg.Policy = "test", "round_robin"
	for i, u := range urls {
		cfg.Endpoints = append(cfg.Endpoints, balance.EndpointConfig{Name: string(rune('a' + i)), URL: u, Weight: 1})
	}
	opts := origin.Options{Config: origin.DefaultConfig(), Node: "kring-1", Version: "1.2"}
	for _, c := range changes {
		c(&cfg, &opts)
	}
	pool, err := balance.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts.Pool = pool
	o, err := origin.New(opts)
	if err != nil {
		pool.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.Close()
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		for _, e := range pool.Status().Endpoints {
			if e.InFlight != 0 {
				t.Errorf("endpoint %s: %d in flight at the end", e.Name, e.InFlight)
			}
		}
	})
	g, err := o.Group(path)
	if err != nil {
		t.Fatal(err)
	}
	return &setup{pool, o, g}
}

// result is the result of a load.
type result struct {
	cache.Loaded
	err  error
	sent int32
}

// load loads a key within ten seconds. It revalidates previous, if not nil.
func (s *setup) load(t testing.TB, key string, previous *cache.Entry) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return s.loadIn(ctx, key, previous)
}

func (s *setup) loadIn(ctx context.Context, key string, previous *cache.Entry) result {
	l := &cache.Load{Key: cache.Key{Group: "docs", Key: key}, Previous: previous}
	loaded, err := s.group.Load(ctx, l)
	return result{loaded, err, l.Sent.Load()}
}

func (r result) mustBe(t testing.TB, value string) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("load: %v", r.err)
	}
	if r.Entry == nil || string(r.Entry.Value) != value {
		t.Fatalf("loaded %+v, want the value %q", r.Loaded, value)
	}
}

func (r result) mustFail(t testing.TB, want *cache.Error) {
	t.Helper()
	if !errors.Is(r.err, want) {
		t.Fatalf("loaded %+v, error %v; want %v", r.Loaded, r.err, want)
	}
	if ce, ok := errors.AsType[*cache.Error](r.err); !ok || ce.Detail == "" {
		t.Fatalf("error %v has no detail", r.err)
	}
}

func (s *setup) healthy(name string) bool {
	for _, e := range s.pool.Status().Endpoints {
		if e.Name == name {
			return e.Healthy
		}
	}
	return false
}

// serve starts a net/http server.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// liar is a server that reads requests properly and answers with arbitrary
// bytes.
type liar struct {
	url         string
	requests    atomic.Int64
	connections atomic.Int64
	closed      atomic.Int64 // connections that this side closed
}

// lie starts a liar. It calls answer for each request; n is the request's
// number, from 1. When answer returns false the connection is closed.
func lie(t testing.TB, answer func(c net.Conn, r *http.Request, n int64) bool) *liar {
	t.Helper()
	return lieOver(t, "http", func(c net.Conn) net.Conn { return c }, answer)
}

// lieOver starts a liar whose connections are wrapped, for example in TLS.
func lieOver(t testing.TB, scheme string, wrap func(net.Conn) net.Conn, answer func(c net.Conn, r *http.Request, n int64) bool) *liar {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{url: scheme + "://" + ln.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards open
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			c = wrap(c)
			l.connections.Add(1)
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer l.closed.Add(1)
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(br)
					if err != nil || !answer(c, r, l.requests.Add(1)) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l
}

// say answers with a fixed text and leaves the connection open.
func say(text string) func(net.Conn, *http.Request, int64) bool {
	return func(c net.Conn, _ *http.Request, _ int64) bool {
		_, err := fmt.Fprint(c, text)
		return err == nil
	}
}

// sayAndClose answers with a fixed text and closes the connection.
func sayAndClose(text string) func(net.Conn, *http.Request, int64) bool {
	return func(c net.Conn, r *http.Request, n int64) bool {
		say(text)(c, r, n)
		return false
	}
}

// reset ends a connection with a RST.
func reset(t testing.TB, c net.Conn) {
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Error(err)
	}
}

// eventually waits until other goroutines make a condition true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never happened: %s", what)
		}
	}
}
