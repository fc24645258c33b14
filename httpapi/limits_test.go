package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kring/cache"
	"kring/httpapi"
)

func TestBadLimits(t *testing.T) {
	s := serve(t)
	for field, spoil := range map[string]func(*httpapi.Limits){
		"limits.request_timeout":         func(l *httpapi.Limits) { l.RequestTimeout = 0 },
		"limits.max_connections":         func(l *httpapi.Limits) { l.MaxConnections = 0 },
		"limits.connections_per_address": func(l *httpapi.Limits) { l.ConnectionsPerAddress = -1 },
		"limits.requests_in_flight":      func(l *httpapi.Limits) { l.RequestsInFlight = 0 },
		"limits.max_waiters":             func(l *httpapi.Limits) { l.MaxWaiters = 0 },
		"limits.max_waiters_per_key":     func(l *httpapi.Limits) { l.MaxWaitersPerKey = 0 },
		"limits.batch_keys":              func(l *httpapi.Limits) { l.BatchKeys = 0 },
		"limits.rate_per_token":          func(l *httpapi.Limits) { l.RatePerToken = -1 },
	} {
		o := s.options
		spoil(&o.Limits)
		if _, err := httpapi.New(o); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestTooManyInFlight: what is over the limit is refused at once, and does not
// wait for those who wait.
func TestTooManyInFlight(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.Limits.RequestsInFlight = 2 })
	slow := make(chan answer, 2)
	for _, key := range []string{"a", "b"} {
		conn := s.dial(t)
		if _, err := io.WriteString(conn, request("GET /v1/cache/docs/slow%20"+key, nil, "")); err != nil {
			t.Fatal(err)
		}
		go func() {
			slow <- read(t, bufio.NewReader(conn), "GET")
			closed(t, conn)
		}()
	}
	eventually(t, "both loads run", func() bool { return s.origin.loads.Load() == 2 })
	got := s.do(t, "GET /v1/cache/docs/c")
	if got.StatusCode != 503 || !strings.Contains(got.body, "/problems/overloaded") || got.Header.Get("Retry-After") == "" {
		t.Errorf("the third: %d %q", got.StatusCode, got.body)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/v1/stats"} {
		if got := s.do(t, "GET "+path); got.StatusCode != 200 {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	close(s.origin.release)
	for range 2 {
		if got := <-slow; got.StatusCode != 200 {
			t.Errorf("a slow one: %d", got.StatusCode)
		}
	}
	if got := s.do(t, "GET /v1/cache/docs/c"); got.StatusCode != 200 {
		t.Errorf("afterwards: %d", got.StatusCode)
	}
}

func TestRequestTimeout(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.Limits.RequestTimeout = 20 * time.Millisecond })
	got := s.do(t, "GET /v1/cache/docs/slow%20a")
	if got.StatusCode != 504 || !strings.Contains(got.body, "/problems/origin-timeout") {
		t.Errorf("%d %q, want 504 origin-timeout", got.StatusCode, got.body)
	}
}

// TestIdleConnectionsKeepNobodyOut opens far more connections than the limit,
// some silent, some in the middle of a header or of a body: a new client is served, and one
// whose request is being answered keeps its connection.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	for name, limit := range map[string]func(*setup){
		"altogether":  func(c *setup) { c.options.Limits.MaxConnections = 8 },
		"per address": func(c *setup) { c.options.Limits.ConnectionsPerAddress = 8 },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, limit)
			busy := s.dial(t)
			defer closed(t, busy)
			if _, err := io.WriteString(busy, request("GET /v1/cache/docs/slow%20a", nil, "")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the load runs", func() bool { return s.origin.loads.Load() == 1 })
			var idle []net.Conn
			for i := range 40 {
				conn := s.dial(t)
				defer closed(t, conn)
				// Every second says nothing at all.
				said := []string{"GET /healthz HTTP/1.1\r\n", "", "PUT /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\nContent-Length: 9\r\n\r\nx", ""}[i%4]
				if _, err := io.WriteString(conn, said); err != nil {
					t.Fatal(err)
				}
				idle = append(idle, conn)
			}
			if got := s.do(t, "GET /v1/cache/docs/b"); got.StatusCode != 200 {
				t.Errorf("a new client: %d", got.StatusCode)
			}
			if rest, err := io.ReadAll(idle[1]); err != nil || len(rest) > 0 {
				t.Errorf("the oldest idle one: %q %v, want it closed", rest, err)
			}
			close(s.origin.release)
			if got := read(t, bufio.NewReader(busy), "GET"); got.StatusCode != 200 {
				t.Errorf("the busy one: %d", got.StatusCode)
			}
			metrics := s.do(t, "GET /metrics").body
			if !strings.Contains(metrics, "kring_http_connections_displaced_total 3") || !strings.Contains(metrics, "kring_http_connections_refused_total 0\n") {
				t.Error("connections were not counted as displaced")
			}
		})
	}
}

// TestHalfABodyKeepsNobodyOut: when each connection is in the middle of a body,
// the one that has been silent longest makes room, and none that still sends.
func TestHalfABodyKeepsNobodyOut(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.Limits.MaxConnections = 3 })
	begin := func(said string) net.Conn {
		t.Helper()
		conn := s.dial(t)
		if _, err := io.WriteString(conn, "PUT /v1/cache/kv/"+said); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	half := " HTTP/1.1\r\nHost: k\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\nhalf"
	slow := begin("slow" + half)
	defer closed(t, slow)
	br := bufio.NewReader(slow)
	// The node asks for the body at the moment that it begins to wait for it.
	if got := read(t, br, "PUT"); got.StatusCode != http.StatusContinue {
		t.Fatalf("status %d", got.StatusCode)
	}
	for i := range 10 {
		stuck := begin("stuck" + half)
		defer closed(t, stuck)
		if got := read(t, bufio.NewReader(stuck), "PUT"); got.StatusCode != http.StatusContinue {
			t.Fatalf("status %d", got.StatusCode)
		}
		if i == 0 {
			if _, err := io.WriteString(slow, "half"); err != nil {
				t.Fatal(err)
			}
			if got := read(t, br, "PUT"); got.StatusCode != http.StatusCreated {
				t.Errorf("who was slow and went on: %d %s", got.StatusCode, got.body)
			}
		}
	}
	if got := s.do(t, "GET /v1/cache/kv/slow"); got.StatusCode != http.StatusOK || got.body != "halfhalf" {
		t.Errorf("a new client: %d %q", got.StatusCode, got.body)
	}
	if got := s.do(t, "GET /v1/cache/kv/stuck"); got.StatusCode != http.StatusNotFound {
		t.Errorf("half a body was stored: %d %q", got.StatusCode, got.body)
	}
}

// scarce is a listener in a process that may have few connections open. Like
// accept(2), it fails only when a client is there.
type scarce struct {
	net.Listener
	free    chan struct{} // as many as may be opened
	pending net.Conn      // came, and has no descriptor yet
}

func (s *scarce) Accept() (net.Conn, error) {
	if s.pending == nil {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s.pending = conn
	}
	select {
	case <-s.free:
		conn := s.pending
		s.pending = nil
		return &descriptor{Conn: conn, free: s.free}, nil
	default:
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
}

type descriptor struct {
	net.Conn
	free chan struct{}
	once sync.Once
}

func (d *descriptor) Close() error {
	d.once.Do(func() { d.free <- struct{}{} })
	return d.Conn.Close()
}

// TestFewDescriptors: idle connections give theirs up for clients that ask.
func TestFewDescriptors(t *testing.T) {
	free := make(chan struct{}, 3)
	for range cap(free) {
		free <- struct{}{}
	}
	s := serve(t, func(c *setup) {
		c.listen = func(l net.Listener) net.Listener { return &scarce{Listener: l, free: free} }
	})
	for range 10 {
		conn := s.dial(t)
		defer closed(t, conn)
	}
	for range 5 {
		if got := s.do(t, "GET /v1/cache/docs/a"); got.StatusCode != 200 {
			t.Errorf("%d %q", got.StatusCode, got.body)
		}
	}
}

// TestAllConnectionsBusy: when each connection is being answered, a new one is
// told so and closed.
func TestAllConnectionsBusy(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.Limits.MaxConnections = 2 })
	var busy []net.Conn
	for _, key := range []string{"a", "b"} {
		conn := s.dial(t)
		defer closed(t, conn)
		if _, err := io.WriteString(conn, request("GET /v1/cache/docs/slow%20"+key, nil, "")); err != nil {
			t.Fatal(err)
		}
		busy = append(busy, conn)
	}
	eventually(t, "both loads run", func() bool { return s.origin.loads.Load() == 2 })
	conn := s.dial(t)
	defer closed(t, conn)
	got := read(t, bufio.NewReader(conn), "GET")
	if got.StatusCode != 503 || !strings.Contains(got.body, "/problems/overloaded") || !got.Close {
		t.Errorf("one too many: %d %q", got.StatusCode, got.body)
	}
	close(s.origin.release)
	for _, conn := range busy {
		if got := read(t, bufio.NewReader(conn), "GET"); got.StatusCode != 200 {
			t.Errorf("a busy one: %d", got.StatusCode)
		}
	}
	eventually(t, "there is room again", func() bool {
		conn := s.dial(t)
		defer closed(t, conn)
		return exchange(t, conn, bufio.NewReader(conn), request("GET /healthz", nil, "")).StatusCode == 200
	})
}

// TestBodiesInMemory: bodies that are being read have a budget of their own,
// claimed by what has arrived and not by what was promised.
func TestBodiesInMemory(t *testing.T) {
	const value = 12 << 20 // the budget is 4 of them
	s := serve(t, func(c *setup) { c.options.MaxValueBytes = value })
	var halves []net.Conn
	send := func(n int) {
		conn := s.dial(t)
		head := request("PUT /v1/cache/kv/a", []string{"Content-Length: " + itoa(value)}, strings.Repeat("x", n))
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
		halves = append(halves, conn)
	}
	defer func() {
		for _, conn := range halves {
			closed(t, conn)
		}
	}()
	held := func(want string) func() bool {
		return func() bool { return strings.Contains(s.do(t, "GET /metrics").body, "kring_http_body_bytes "+want+"\n") }
	}
	for range 20 {
		send(10)
	}
	eventually(t, "20 first pieces are held", held("1.31072e+06"))
	if got := s.do(t, "PUT /v1/cache/kv/b", strings.Repeat("x", 1<<20)); got.StatusCode >= 300 {
		t.Errorf("a megabyte besides promises: %d", got.StatusCode)
	}
	for range 3 {
		send(1 << 20)
	}
	eventually(t, "three bodies are held besides", func() bool { return !held("1.31072e+06")() })
	eventually(t, "a fourth is refused", func() bool {
		got := s.do(t, "PUT /v1/cache/kv/b", strings.Repeat("x", value))
		return got.StatusCode == 503 && strings.Contains(got.body, "/problems/overloaded")
	})
	for _, conn := range halves {
		closed(t, conn)
	}
	halves = nil
	eventually(t, "all is given back", held("0"))
}

// TestDraining: a node that is about to stop says so, answers what comes all
// the same, and keeps no connection.
func TestDraining(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.Draining = func() bool { return true } })
	got := s.do(t, "GET /readyz")
	if got.StatusCode != 503 || !strings.Contains(got.body, "/problems/draining") || got.Header.Get("Retry-After") == "" {
		t.Errorf("readyz: %d %q", got.StatusCode, got.body)
	}
	if got := s.do(t, "GET /healthz"); got.StatusCode != 200 {
		t.Errorf("healthz: %d", got.StatusCode)
	}
	if got := s.do(t, "GET /v1/cache/docs/a"); got.StatusCode != 200 || !got.Close {
		t.Errorf("a get: %d, close %v", got.StatusCode, got.Close)
	}
}

// TestTurnedAwayInMidSentence: who sends more than is accepted still gets to
// read why, though it writes all before it reads.
func TestTurnedAwayInMidSentence(t *testing.T) {
	s := serve(t)
	const size = 40 << 20
	value := strings.Repeat("x", size)
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(size, 16) + "\r\n" + value + "\r\n0\r\n\r\n"
	sized := "Content-Length: " + itoa(size) + "\r\n\r\n" + value
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"PUT":         {"PUT /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\n" + sized, 413},
		"chunked PUT": {"PUT /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\n" + chunked, 413},
		"impatient":   {"PUT /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\nExpect: 100-continue\r\n" + sized, 413},
		"batch":       {"POST /v1/batch/kv HTTP/1.1\r\nHost: k\r\n" + sized, 413},
		"GET":         {"GET /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\n" + sized, 400},
		"bad key":     {"PUT /v1/cache/kv/%00 HTTP/1.1\r\nHost: k\r\n" + sized, 400},
		"malformed":   {"PUT /v1/cache/kv/%zz HTTP/1.1\r\nHost: k\r\n" + sized, 400},
		"HTTP/1.0":    {"PUT /v1/cache/kv/a HTTP/1.0\r\n" + chunked, 400},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.raw(t, c.request)
			if got.StatusCode != c.status || !got.Close {
				t.Errorf("%d, close %v, want %d and close", got.StatusCode, got.Close, c.status)
			}
		})
	}
	if n := s.cache.Stats().Entries; n != 0 {
		t.Errorf("%d entries", n)
	}
}

func TestClientGone(t *testing.T) {
	s := serve(t)
	conn := s.dial(t)
	if _, err := io.WriteString(conn, request("GET /v1/cache/docs/slow%20a", nil, "")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the load runs", func() bool { return s.origin.loads.Load() == 1 })
	closed(t, conn)
	eventually(t, "it is counted as gone", func() bool {
		return strings.Contains(s.do(t, "GET /metrics").body, `kring_http_requests_total{method="GET",route="/v1/cache/:group/*key",status="499"} 1`)
	})
	close(s.origin.release)
	if got := s.do(t, "GET /v1/cache/docs/slow%20a"); got.StatusCode != 200 {
		t.Errorf("the next: %d", got.StatusCode)
	}
	if key := (cache.Key{Group: "docs", Key: "slow a"}); s.origin.loads.Load() != 1 {
		t.Errorf("%v was loaded %d times", key, s.origin.loads.Load())
	}
}
