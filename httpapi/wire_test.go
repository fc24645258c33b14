package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kring/cache"
	"kring/peers"
)

// TestMalformed sends malformed requests. Each is answered once, and then the
// connection ends: the rest might be read as another request.
func TestMalformed(t *testing.T) {
	const smuggled = "GET /v1/cache/kv/smuggled HTTP/1.1\r\nHost: k\r\n\r\n"
	const put10 = "PUT /v1/cache/kv/a HTTP/1.0\r\n"
	put := "PUT /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"two different lengths":       {put + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy", 400},
		"no number for a length":      {put + "Content-Length: 1x\r\n\r\nx", 400},
		"a negative length":           {put + "Content-Length: -1\r\n\r\n", 400},
		"a space before the colon":    {put + "Content-Length : 1\r\n\r\nx", 400},
		"a continued line":            {put + "X-A: b\r\n c\r\nContent-Length : 1\r\n\r\nx", 400},
		"a bad escape":                {"GET /v1/cache/kv/%zz HTTP/1.1\r\nHost: k\r\n\r\n", 400},
		"a cut escape":                {"GET /v1/cache/kv/a%2 HTTP/1.1\r\nHost: k\r\n\r\n", 400},
		"a raw space":                 {"GET /v1/cache/kv/a b HTTP/1.1\r\nHost: k\r\n\r\n", 400},
		"a raw control character":     {"GET /v1/cache/kv/a\x01b HTTP/1.1\r\nHost: k\r\n\r\n", 400},
		"no host":                     {"GET /v1/cache/kv/a HTTP/1.1\r\n\r\n", 400},
		"GET with a body":             {"GET /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\nContent-Length: 5\r\n\r\nhello", 400},
		"GET with a chunked body":     {"GET /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"HEAD with a body":            {"HEAD /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\nContent-Length: 5\r\n\r\nhello", 400},
		"a transfer coding unknown":   {put + "Transfer-Encoding: gzip\r\n\r\nx", 501},
		"two transfer codings":        {put + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501},
		"a chunk with a bad length":   {put + "Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n0\r\n\r\n", 400},
		"a chunk without its end":     {put + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", 400},
		"another version":             {"GET /healthz HTTP/3.0\r\nHost: k\r\n\r\n", 505},
		"another expectation":         {put + "Expect: 200-ok\r\nContent-Length: 1\r\n\r\nx", 417},
		"1.0: length and chunked":     {put10 + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"1.0: kept, length, chunked":  {put10 + "Connection: keep-alive\r\nContent-Length: 5\r\ntransfer-ENCODING:\tchunked\r\n\r\n0\r\n\r\n", 400},
		"1.0: chunked":                {put10 + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 400},
		"1.0: chunked, bare LF":       {"PUT /v1/cache/kv/a HTTP/1.0\nContent-Length: 1\nTransfer-Encoding: chunked\n\nx", 400},
		"1.0: GET, kept, chunked":     {"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"1.0: no length":              {put10 + "\r\nx", 400},
		"1.0: kept":                   {put10 + "Connection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 201},
		"1.0: the value names it":     {put10 + "Content-Length: 28\r\n\r\n\r\nTransfer-Encoding: chunked", 201},
		"a chunked body":              {put + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 201},
		"length and chunked":          {put + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 201},
		"a megabyte of header fields": {"GET /healthz HTTP/1.1\r\nHost: k\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 1000) + "\r\n", 431},
		"a megabyte of path":          {"GET /v1/cache/kv/" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: k\r\n\r\n", 431},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			conn := s.dial(t)
			defer closed(t, conn)
			sent := make(chan error, 1)
			go func() {
				_, err := io.WriteString(conn, c.request+smuggled)
				sent <- err
			}()
			br := bufio.NewReader(conn)
			method, _, _ := strings.Cut(c.request, " ")
			got := read(t, br, method)
			if got.StatusCode != c.status {
				t.Errorf("status %d, want %d: %q", got.StatusCode, c.status, got.body)
			}
			if c.status >= 400 {
				if ct := got.Header.Get("Content-Type"); ct != "application/problem+json" {
					t.Errorf("Content-Type %q of %q", ct, got.body)
				}
			}
			if rest, err := io.ReadAll(br); len(rest) > 0 {
				t.Errorf("a second answer: %q (%v)", rest, err)
			}
			if err := <-sent; err != nil {
				t.Errorf("send: %v", err)
			}
			if n := s.cache.Stats().Gets; n != 0 {
				t.Errorf("%d gets: the rest was read as a request", n)
			}
		})
	}
}

// TestMalformedLater: a kept connection's later requests are held to the same,
// whether they come with the one before or after its answer.
func TestMalformedLater(t *testing.T) {
	const good = "GET /healthz HTTP/1.1\r\nHost: k\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
		unread  bool
	}{
		"no host":             {"GET /healthz HTTP/1.1\r\n\r\n", 400, true},
		"a bad escape":        {"GET /v1/cache/kv/%zz HTTP/1.1\r\nHost: k\r\n\r\n", 400, true},
		"two lengths":         {"PUT /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy", 400, true},
		"a coding unknown":    {"PUT /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: gzip\r\n\r\nx", 501, true},
		"HTTP/1.0 and length": {"PUT /v1/cache/kv/a HTTP/1.0\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx", 400, false},
	} {
		for _, pipelined := range []bool{true, false} {
			t.Run(name+" "+strconv.FormatBool(pipelined), func(t *testing.T) {
				s := serve(t)
				conn := s.dial(t)
				defer closed(t, conn)
				br := bufio.NewReader(conn)
				if pipelined {
					if got := exchange(t, conn, br, good+c.request); got.StatusCode != 200 {
						t.Fatalf("the first: %d", got.StatusCode)
					}
				} else {
					if got := exchange(t, conn, br, good); got.StatusCode != 200 {
						t.Fatalf("the first: %d", got.StatusCode)
					}
					if _, err := io.WriteString(conn, c.request); err != nil {
						t.Fatal(err)
					}
				}
				got := read(t, br, "GET")
				if got.StatusCode != c.status || got.Header.Get("Content-Type") != "application/problem+json" || !got.Close {
					t.Errorf("%d %q, close %v, want a problem of status %d", got.StatusCode, got.body, got.Close, c.status)
				}
				counted := "kring_http_unread_requests_total{status=\"" + itoa(c.status) + "\"} 1\n"
				if has := strings.Contains(s.do(t, "GET /metrics").body, counted); has != c.unread {
					t.Errorf("counted as unread: %v", has)
				}
				if n := s.cache.Stats().Entries; n != 0 {
					t.Errorf("%d entries", n)
				}
			})
		}
	}
}

// TestHalfClosed: a client that has said all it had to may end its sending
// side. A write's truth does not hang on that; a get that would have to wait is
// given up, as for one that is gone, which cannot be told from it.
func TestHalfClosed(t *testing.T) {
	s := serve(t)
	half := func(request string) (net.Conn, *bufio.Reader) {
		conn := s.dial(t)
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		return conn, bufio.NewReader(conn)
	}
	for range 20 {
		for _, c := range []struct {
			line   string
			body   string
			status []int
		}{
			{"PUT /v1/cache/kv/a", "x", []int{201, 204}},
			{"GET /v1/cache/kv/a", "", []int{200}},
			{"POST /v1/batch/kv", `{"delete":["a"]}`, []int{200}},
			{"DELETE /v1/cache/kv/a", "", []int{204}},
			{"DELETE /v1/cache/kv", "", []int{204}},
		} {
			method, _, _ := strings.Cut(c.line, " ")
			conn, br := half(request(c.line, nil, c.body))
			if got := read(t, br, method); !slices.Contains(c.status, got.StatusCode) || strings.Contains(got.body, "499") {
				t.Errorf("%s: %d %q", c.line, got.StatusCode, got.body)
			}
			closed(t, conn)
		}
	}
	for _, r := range []string{request("GET /v1/cache/docs/slow%20a", nil, ""), request("POST /v1/batch/docs", nil, `{"keys":["slow a"]}`)} {
		conn, br := half(r)
		if rest, err := io.ReadAll(br); err != nil || len(rest) > 0 {
			t.Errorf("%q was answered by %q (%v), want a closed connection", r, rest, err)
		}
		closed(t, conn)
	}
	close(s.origin.release)
	for _, c := range []struct{ method, route string }{{"GET", "/v1/cache/:group/*key"}, {"POST", "/v1/batch/:group"}} {
		counter := `kring_http_requests_total{method="` + c.method + `",route="` + c.route + `",status="499"}`
		if n := s.metric(t, counter); n != 1 {
			t.Errorf("%s is %v, want 1", counter, n)
		}
	}
}

// slowElsewhere is a cluster whose other nodes take their time for a write, and
// give it up when their caller does.
type slowElsewhere struct{ begun, release chan struct{} }

func (e slowElsewhere) call(ctx context.Context, _ *peers.Request) (peers.Reply, error) {
	e.begun <- struct{}{}
	select {
	case <-e.release:
		return peers.Reply{Answer: cache.Answer{Node: "kring-2", Created: true}}, nil
	case <-ctx.Done():
		return peers.Reply{}, ctx.Err()
	}
}

// TestASlowWriteOfAHalfClosedClient: a client that has closed its sending side
// gets the answer to its write or purge, however late.
func TestASlowWriteOfAHalfClosedClient(t *testing.T) {
	for _, c := range []struct {
		line, body string
		status     int
	}{
		{"PUT /v1/cache/kv/a", "x", 201},
		{"DELETE /v1/cache/kv/a", "", 204},
		{"POST /v1/batch/kv", `{"delete":["a"]}`, 200},
		{"DELETE /v1/cache/kv", "", 204},
		{"POST /v1/purge/kv", `{"tags":["a"]}`, 204},
	} {
		t.Run(c.line, func(t *testing.T) {
			far := slowElsewhere{begun: make(chan struct{}, 2), release: make(chan struct{})}
			s := serve(t, actsElsewhere(t, far.call))
			conn := s.dial(t)
			defer closed(t, conn)
			if _, err := io.WriteString(conn, request(c.line, nil, c.body)); err != nil {
				t.Fatal(err)
			}
			<-far.begun
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			type outcome struct {
				status int
				body   []byte
				err    error
			}
			answered := make(chan outcome, 1) // in any case: the connection has a deadline
			go func() {
				method, _, _ := strings.Cut(c.line, " ")
				res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
				if err != nil {
					answered <- outcome{err: err}
					return
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				answered <- outcome{res.StatusCode, body, err}
			}()
			// There is no sign by which a client could tell that the server has seen
			// the end. If it gives the write up, it does so at once.
			select {
			case got := <-answered:
				t.Fatalf("the write was given up before it was done: %+v", got)
			case <-time.After(100 * time.Millisecond):
			}
			close(far.release)
			if got := <-answered; got.err != nil || got.status != c.status || c.status == 200 && !strings.Contains(string(got.body), `"status":204`) {
				t.Errorf("%d %s %v, want %d", got.status, got.body, got.err, c.status)
			}
		})
	}
}

// stuckCall never answers a write.
func stuckCall(ctx context.Context, _ *peers.Request) (peers.Reply, error) {
	select {
	case <-ctx.Done():
		return peers.Reply{}, ctx.Err()
	case <-time.After(10 * time.Second):
		return peers.Reply{}, errors.New("the write's time did not end")
	}
}

// TestAWritesTimeEnds: a write ends at request_timeout, even if its client waits
// longer.
func TestAWritesTimeEnds(t *testing.T) {
	s := serve(t, actsElsewhere(t, stuckCall), func(c *setup) {
		c.options.Limits.RequestTimeout = 20 * time.Millisecond
	})
	for _, c := range []struct{ line, body string }{
		{"PUT /v1/cache/kv/a", "x"},
		{"DELETE /v1/cache/kv/a", ""},
		{"POST /v1/batch/kv", `{"delete":["a"]}`},
	} {
		if got := s.do(t, c.line, c.body); !strings.Contains(got.body, "write-unconfirmed") {
			t.Errorf("%s: %d %q, want write-unconfirmed", c.line, got.StatusCode, got.body)
		}
	}
}

// TestHalfABody: neither a short body nor a chunked one without its end is
// ever stored.
func TestHalfABody(t *testing.T) {
	for name, rest := range map[string]string{
		"short":              "Content-Length: 10\r\n\r\nhalf",
		"within a chunk":     "Transfer-Encoding: chunked\r\n\r\n8\r\nhalf",
		"between two chunks": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"before the trailer": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			conn := s.dial(t)
			if _, err := io.WriteString(conn, "PUT /v1/cache/kv/a HTTP/1.1\r\nHost: k\r\n"+rest); err != nil {
				t.Fatal(err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got := read(t, bufio.NewReader(conn), "PUT"); got.StatusCode != 400 {
				t.Errorf("status %d, want 400", got.StatusCode)
			}
			closed(t, conn)
			if got := s.do(t, "GET /v1/cache/kv/a"); got.StatusCode != 404 {
				t.Errorf("then it has %d %q", got.StatusCode, got.body)
			}
		})
	}
}

func TestBodiesOfAllSizes(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.MaxValueBytes = 300_000 })
	for _, size := range []int{1, 2047, 2048, 2049, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10, 299_999, 300_000, 300_001} {
		value := strings.Repeat("0123456789", size/10+1)[:size]
		want := 204
		if size > 300_000 {
			want = 413
		}
		s.do(t, "DELETE /v1/cache/kv/a")
		s.do(t, "PUT /v1/cache/kv/a", "x")
		if got := s.do(t, "PUT /v1/cache/kv/a", value); got.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d", size, got.StatusCode, want)
		} else if want == 204 {
			if back := s.do(t, "GET /v1/cache/kv/a"); back.body != value || back.ContentLength != int64(size) {
				t.Errorf("%d bytes: %d came back", size, len(back.body))
			}
		}
		var chunked strings.Builder
		for rest := value; rest != ""; {
			n := min(len(rest), 50_000)
			chunked.WriteString(strconv.FormatInt(int64(n), 16) + "\r\n" + rest[:n] + "\r\n")
			rest = rest[n:]
		}
		s.do(t, "PUT /v1/cache/kv/b", "x")
		got := s.do(t, "PUT /v1/cache/kv/b", "Transfer-Encoding: chunked", chunked.String()+"0\r\n\r\n")
		if got.StatusCode != want || !got.Close {
			t.Errorf("%d bytes chunked: %d, close %v, want %d and close", size, got.StatusCode, got.Close, want)
		} else if want == 204 {
			if back := s.do(t, "GET /v1/cache/kv/b"); back.body != value {
				t.Errorf("%d bytes chunked: %d came back", size, len(back.body))
			}
		}
	}
}

func shortReads(s *http.Server) { s.ReadTimeout = 100 * time.Millisecond }

func TestSlowHeader(t *testing.T) {
	s := serve(t, func(c *setup) {
		c.server = func(s *http.Server) { s.ReadHeaderTimeout = 100 * time.Millisecond }
	})
	conn := s.dial(t)
	defer closed(t, conn)
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: "); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("still open: %v", err)
	}
}

// TestSlowBody: a body that does not come is given up at the request's time.
func TestSlowBody(t *testing.T) {
	s := serve(t, func(c *setup) { c.server = shortReads })
	got := s.do(t, "PUT /v1/cache/kv/a", "Content-Length: 100", "some")
	if got.StatusCode != 400 || !strings.Contains(got.body, "bad-request") {
		t.Errorf("%d %q, want a 400", got.StatusCode, got.body)
	}
}

// TestKeptConnection: one connection serves many requests, also after errors.
func TestKeptConnection(t *testing.T) {
	s := serve(t)
	conn := s.dial(t)
	defer closed(t, conn)
	br := bufio.NewReader(conn)
	for range 3 {
		for line, status := range map[string]int{
			"PUT /v1/cache/kv/a": 0, "GET /v1/cache/kv/a": 200, "GET /v1/cache/kv/b": 404, "HEAD /v1/cache/kv/a": 200,
			"GET /v1/cache/kv/": 400, "DELETE /v1/cache/kv/c": 204, "POST /v1/stats": 405,
		} {
			body := ""
			if status == 0 || status == 405 {
				body = "x"
			}
			got := exchange(t, conn, br, request(line, nil, body))
			if status != 0 && got.StatusCode != status && got.StatusCode != 404 {
				t.Errorf("%s: %d, want %d", line, got.StatusCode, status)
			}
			if got.Close {
				t.Errorf("%s: closes", line)
			}
		}
	}
}
