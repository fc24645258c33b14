package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
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
		"limits.response_bytes":          func(l *httpapi.Limits) { l.ResponseBytes = 1 << 10 },
		"limits.rate_per_token":          func(l *httpapi.Limits) { l.RatePerToken = -1 },
	} {
		o := s.options
		spoil(&o.Limits)
		if _, err := httpapi.New(o); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestResponseBytes(t *testing.T) {
	for _, c := range []struct {
		set   httpapi.SizeOrShare
		cache int64
		want  int64
	}{
		{0.25, 1 << 30, 256 << 20},
		{0.25, 256 << 20, 64 << 20},
		{0.25, 1 << 20, 64 << 20},
		{1, 1 << 30, 1 << 30},
		{32 << 20, 1 << 30, 32 << 20},
		{1 << 31, 1 << 20, 1 << 31},
	} {
		if got := (httpapi.Limits{ResponseBytes: c.set}).Responses(c.cache); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.set, c.cache, got, c.want)
		}
	}
	for set, ok := range map[httpapi.SizeOrShare]bool{
		-1: false, 0: false, 0.01: true, 1: true, 1.5: false, 1<<20 - 1: false, 1 << 20: true, 1 << 51: false,
	} {
		if err := (httpapi.Limits{ResponseBytes: set}).CheckResponses(); (err == nil) != ok {
			t.Errorf("%v: %v", set, err)
		}
	}
}

// TestTooManyInFlight: a request above the limit is refused at once, also while
// the others wait.
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
			// 41 came before the new client, and 8 may be open. Its own may not be
			// seen to be closed when the metrics are asked for.
			if n := s.metric(t, "kring_http_connections_displaced_total"); n < 34 || n > 35 {
				t.Errorf("%v connections were displaced, want 34 or 35", n)
			}
			if n := s.metric(t, "kring_http_connections_refused_total"); n != 0 {
				t.Errorf("%v connections were refused", n)
			}
		})
	}
}

// TestHalfABodyKeepsNobodyOut: when every connection is in the middle of a body,
// the one that has been silent longest makes room. A client that still sends keeps
// its connection.
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

// silent opens connections that promise a body and send so much of it.
func (s *server) silent(t *testing.T, n int, line string, promised, sent int) {
	t.Helper()
	for range n {
		conn := s.dial(t)
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, request(line, []string{"Content-Length: " + itoa(promised)}, strings.Repeat(" ", sent))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestABodyTakesRoomWhenItsBytesCome: any number of clients that promise bodies
// and send next to nothing take no room from others.
func TestABodyTakesRoomWhenItsBytesCome(t *testing.T) {
	for _, line := range []string{"PUT /v1/cache/kv/a", "POST /v1/batch/kv", "POST /v1/purge/kv"} {
		for _, sent := range []int{0, 1} {
			t.Run(line+" "+itoa(sent), func(t *testing.T) {
				const clients = 520
				s := serve(t)
				s.silent(t, clients, line, 65536, sent)
				eventually(t, "all are being read", func() bool {
					values := clients // small lists take no room
					if !strings.HasPrefix(line, "PUT") {
						values = 0
					}
					return s.metric(t, "kring_http_requests_in_flight") == clients && s.metric(t, "kring_http_body_bytes") >= float64(values*sent)
				})
				if held := s.metric(t, "kring_http_body_bytes"); held > float64(clients*sent*8<<10) {
					t.Errorf("%v bytes are held for %d bytes each", held, sent)
				}
				if got := s.do(t, "PUT /v1/cache/kv/b", strings.Repeat("x", 1<<20)); got.StatusCode != 201 {
					t.Errorf("another's PUT: %d %s", got.StatusCode, got.body)
				}
				if got := s.do(t, "POST /v1/batch/kv", `{"keys":["b"]}`); got.StatusCode != 200 {
					t.Errorf("another's batch: %d %s", got.StatusCode, got.body)
				}
			})
		}
	}
}

// TestReadersDoNotShutOutWriters: the bodies of batches, which a token to read
// suffices for, have no room in common with values that are written.
func TestReadersDoNotShutOutWriters(t *testing.T) {
	s := serve(t)
	key := `{"keys":["` + strings.Repeat("x", 4<<20)
	for range 12 {
		conn := s.dial(t)
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, request("POST /v1/batch/kv", []string{"Content-Length: 5000000"}, key)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "there is no more room for batches", func() bool { return s.metric(t, "kring_http_body_bytes") > 12<<20 })
	value := strings.Repeat("x", 1<<20)
	for range 3 {
		if got := s.do(t, "PUT /v1/cache/kv/a", value); got.StatusCode/100 != 2 {
			t.Errorf("a PUT: %d %s", got.StatusCode, got.body)
		}
	}
	refused := s.metric(t, "kring_http_bodies_refused_total")
	s.smallLists(t)
	if s.metric(t, "kring_http_bodies_refused_total") != refused {
		t.Error("a small list needed room")
	}
}

// smallLists sends lists that are too small to need room.
func (s *server) smallLists(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		line, body string
		status     int
	}{
		{"POST /v1/batch/kv", `{"keys":["none"]}`, 200},
		{"POST /v1/batch/kv", `{"delete":["none"]}`, 200},
		{"POST /v1/purge/kv", `{"tags":["none"]}`, 204},
	} {
		if got := s.do(t, c.line, c.body); got.StatusCode != c.status {
			t.Errorf("%s %s: %d %s", c.line, c.body, got.StatusCode, got.body)
		}
	}
}

// TestReadersOfBatchesDoNotKeepTheRoomOfTheirKeys: the keys of a batch are held
// until its answer is written. A client that reads nothing of the answer makes
// room.
func TestReadersOfBatchesDoNotKeepTheRoomOfTheirKeys(t *testing.T) {
	const value = 4 << 20 // more than the kernel takes of an answer that nobody reads
	s := serve(t, largest(value))
	s.do(t, "PUT /v1/cache/kv/large", strings.Repeat("x", value))
	list := `{"keys":["large"` + strings.Repeat(`,"`+strings.Repeat("k", 1000)+`"`, 900) + `]}`
	for range 18 {
		conn := s.dial(t)
		t.Cleanup(func() { conn.Close() })
		if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request("POST /v1/batch/kv", nil, list)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "there is no more room for keys", func() bool { return s.metric(t, "kring_http_body_bytes") > 15<<20 })
	s.smallLists(t)
	eventually(t, "another large batch is answered", func() bool {
		return s.do(t, "POST /v1/batch/kv", strings.Replace(list, `"large",`, "", 1)).StatusCode == 200
	})
	if n := s.metric(t, "kring_http_bodies_turned_away_total"); n < 1 || n > 4 {
		t.Errorf("%v were turned away for two at most that waited", n)
	}
}

// largest sets the size of the largest value.
func largest(bytes int64) func(*setup) {
	return func(c *setup) { c.cache.Config.MaxValueBytes, c.options.MaxValueBytes = bytes, bytes }
}

// TestClientsThatSendNoMoreMakeRoom: when there is no room for a body, the request
// is ended whose client has sent nothing for longest.
func TestClientsThatSendNoMoreMakeRoom(t *testing.T) {
	const value = 8 << 20 // the budget is 4 of them
	s := serve(t, largest(value))
	// More than half of it: there is room for the whole value.
	s.silent(t, 4, "PUT /v1/cache/kv/a", value, value/2+1)
	eventually(t, "four values are held", func() bool { return s.metric(t, "kring_http_body_bytes") == 4*value })
	eventually(t, "a fifth is stored", func() bool {
		return s.do(t, "PUT /v1/cache/kv/b", strings.Repeat("x", value)).StatusCode/100 == 2
	})
	if n := s.metric(t, "kring_http_bodies_turned_away_total"); n != 1 {
		t.Errorf("%v were turned away for one", n)
	}
	if n := s.metric(t, `kring_http_requests_total{method="PUT",route="/v1/cache/:group/*key",status="400"}`); n != 1 {
		t.Errorf("%v got a 400", n)
	}
}

// TestManyChunkedBodiesAtOnce: bodies of unknown length get all the room of the
// budget.
func TestManyChunkedBodiesAtOnce(t *testing.T) {
	for _, c := range []struct {
		clients, size int
		most          int64
	}{{2, 7 << 20, 8 << 20}, {4, 7 << 20, 8 << 20}, {4, 8 << 20, 8 << 20}, {20, 900_000, 1 << 20}, {32, 1 << 20, 1 << 20}} {
		t.Run(itoa(c.clients)+" of "+itoa(c.size), func(t *testing.T) {
			s := serve(t, largest(c.most))
			half := strings.Repeat("x", c.size/2)
			chunk := strconv.FormatInt(int64(c.size/2), 16) + "\r\n" + half + "\r\n"
			conns := make([]net.Conn, c.clients)
			var halves sync.WaitGroup
			for i := range conns {
				conns[i] = s.dial(t)
				defer closed(t, conns[i])
				halves.Go(func() {
					head := request("PUT /v1/cache/kv/"+itoa(i), []string{"Transfer-Encoding: chunked"}, "")
					if _, err := io.WriteString(conns[i], head+chunk); err != nil {
						t.Error(err)
					}
				})
			}
			halves.Wait() // so that each has its first half in memory at once
			var rest sync.WaitGroup
			for _, conn := range conns {
				rest.Go(func() {
					if _, err := io.WriteString(conn, chunk+"0\r\n\r\n"); err != nil {
						t.Error(err)
					}
				})
			}
			for i, conn := range conns {
				if got := read(t, bufio.NewReader(conn), "PUT"); got.StatusCode != 201 {
					t.Errorf("client %d: %d %s", i, got.StatusCode, got.body)
				}
			}
			rest.Wait()
			if held := s.metric(t, "kring_http_body_bytes"); held != 0 {
				t.Errorf("%v bytes are held afterwards", held)
			}
		})
	}
}

// TestOneKeyTooMany: a list that is too long is refused at the first item too
// many, before the rest has arrived.
func TestOneKeyTooMany(t *testing.T) {
	s := serve(t)
	binary := "\x01\x01\x00\x00\x03\xe9"
	for _, c := range []struct{ name, line, kind, begins string }{
		{"keys", "POST /v1/batch/kv", "application/json", `{"keys":[` + strings.Repeat(`"",`, 1001)},
		{"delete", "POST /v1/batch/kv", "application/json", `{"delete":[` + strings.Repeat(`"",`, 1001)},
		{"binary keys", "POST /v1/batch/kv", "application/vnd.kring.batch", binary},
		{"tags", "POST /v1/purge/kv", "application/json", `{"tags":[` + strings.Repeat(`"t",`, 1001)},
		{"bytes of tags", "POST /v1/purge/kv", "application/json", `{"tags":["` + strings.Repeat(`x`, 32<<10) + `","y",`},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := s.dial(t)
			defer closed(t, conn)
			// The rest never comes.
			got := exchange(t, conn, bufio.NewReader(conn), request(c.line, []string{"Content-Type: " + c.kind, "Content-Length: 100000"}, c.begins))
			if got.StatusCode != 413 || !got.Close {
				t.Errorf("%d %s, close %v, want 413 and close", got.StatusCode, got.body, got.Close)
			}
		})
	}
	for _, c := range []struct{ line, body string }{
		{"POST /v1/batch/kv", `{"keys":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 1000), ",") + `]}`},
		{"POST /v1/purge/kv", `{"tags":[` + strings.TrimSuffix(strings.Repeat(`"t",`, 1000), ",") + `]}`},
	} {
		if got := s.do(t, c.line, c.body); got.StatusCode/100 != 2 {
			t.Errorf("%s of 1000: %d %s", c.line, got.StatusCode, got.body)
		}
	}
}

// TestABatchIsNotBoundedLikeAValue: a batch's keys may be longer together than
// the largest value.
func TestABatchIsNotBoundedLikeAValue(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.MaxValueBytes = 1000 })
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = strings.Repeat("k", 100) + itoa(i)
	}
	s.do(t, "PUT /v1/cache/kv/"+keys[99], "x")
	for _, member := range []string{"keys", "delete"} {
		body := `{"` + member + `":["` + strings.Join(keys, `","`) + `"]}`
		if got := s.do(t, "POST /v1/batch/kv", body); got.StatusCode != 200 || strings.Count(got.body, `"status":`) != 100 {
			t.Errorf("%s: %d %.200s", member, got.StatusCode, got.body)
		}
	}
	if got := s.do(t, "PUT /v1/cache/kv/a", strings.Repeat("x", 1001)); got.StatusCode != 413 {
		t.Errorf("a value above the limit: %d", got.StatusCode)
	}
}

// TestTheRoomOfListsIsGivenBack sends more keys than may be read at once, one
// list after the other.
func TestTheRoomOfListsIsGivenBack(t *testing.T) {
	s := serve(t)
	keys := strings.Repeat(`"`+strings.Repeat("k", 900)+`",`, 999) + `"k"`
	for i := range 40 { // 36 MB of keys; there is room for 16
		if got := s.do(t, "POST /v1/batch/kv", `{"keys":[`+keys+`]}`); got.StatusCode != 200 {
			t.Fatalf("batch %d: %d %.200q", i, got.StatusCode, got.body)
		}
	}
}

// TestARefusedRequestIsNotInFlight: a refused request takes no place from later
// ones.
func TestARefusedRequestIsNotInFlight(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.Limits.RequestsInFlight = 1 })
	conn := s.dial(t)
	defer closed(t, conn)
	if _, err := io.WriteString(conn, request("GET /v1/cache/docs/slow%20a", nil, "")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the load runs", func() bool { return s.origin.loads.Load() == 1 })
	for i := range 100 {
		if got := s.do(t, "GET /v1/cache/docs/b"); got.StatusCode != 503 {
			t.Fatalf("request %d beside the slow one: %d", i, got.StatusCode)
		}
	}
	if n := s.metric(t, "kring_http_requests_in_flight"); n != 1 {
		t.Errorf("%v requests are in flight, want the slow one", n)
	}
	close(s.origin.release)
	if got := read(t, bufio.NewReader(conn), "GET"); got.StatusCode != 200 {
		t.Errorf("the slow one: %d", got.StatusCode)
	}
	// Each way to refuse a request lets go of its place.
	for range 3 {
		for line, status := range map[string]int{
			"GET /v1/cache/Kv/a": 400, "GET /v1/cache/kv/": 400, "GET /v1/cache/nowhere/a": 404, "PUT /v1/cache/kv/a?tll=1s": 400,
			"GET /v1/cache/docs/panicking": 500, "DELETE /v1/cache/kv?a=b": 400, "PUT /v1/pools/none/endpoints/a": 404,
		} {
			if got := s.do(t, line); got.StatusCode != status {
				t.Errorf("%s: %d, want %d", line, got.StatusCode, status)
			}
		}
	}
	eventually(t, "nothing is in flight", func() bool { return s.metric(t, "kring_http_requests_in_flight") == 0 })
	if got := s.do(t, "GET /v1/cache/docs/b"); got.StatusCode != 200 {
		t.Errorf("a request that is in order: %d", got.StatusCode)
	}
}

// TestDraining: a node that is about to stop is not ready. It still answers
// requests, and closes each connection after its answer.
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

// TestTurnedAwayInMidSentence: a client that sends too much can read why, even if
// it writes all before it reads.
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
		return s.metric(t, `kring_http_requests_total{method="GET",route="/v1/cache/:group/*key",status="499"}`) == 1
	})
	close(s.origin.release)
	if got := s.do(t, "GET /v1/cache/docs/slow%20a"); got.StatusCode != 200 {
		t.Errorf("the next: %d", got.StatusCode)
	}
	if key := (cache.Key{Group: "docs", Key: "slow a"}); s.origin.loads.Load() != 1 {
		t.Errorf("%v was loaded %d times", key, s.origin.loads.Load())
	}
}

// stuck asks for a key and reads nothing of the answer.
func (s *server) stuck(t *testing.T, key string) net.Conn {
	t.Helper()
	conn := s.dial(t)
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request("GET /v1/cache/kv/"+key, nil, "")); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestWhatSendsNoLargeValueNeedsNoRoom: when answers have used up their budget,
// only answers that would add to it wait. Then the client that takes nothing makes
// room.
func TestWhatSendsNoLargeValueNeedsNoRoom(t *testing.T) {
	const size = 4 << 20 // more than the kernel takes of an answer that nobody reads
	s := serve(t, largest(size), func(c *setup) { c.options.Responses = httpapi.NewResponses(1 << 20) })
	for _, key := range []string{"a", "b"} {
		if got := s.do(t, "PUT /v1/cache/kv/"+key, strings.Repeat(key, size)); got.StatusCode != 201 {
			t.Fatal(got.StatusCode)
		}
	}
	s.do(t, "PUT /v1/cache/kv/small", "x")
	etag := s.do(t, "HEAD /v1/cache/kv/b").Header.Get("ETag")
	stuck := s.stuck(t, "a")
	eventually(t, "a value is charged", func() bool { return s.metric(t, "kring_response_bytes") == size })
	for _, c := range []struct {
		line, header string
		status       int
	}{
		{"HEAD /v1/cache/kv/b", "Accept: */*", 200},
		{"GET /v1/cache/kv/b", "If-None-Match: " + etag, 304},
		{"HEAD /v1/cache/kv/b", "If-None-Match: " + etag, 304},
		{"GET /v1/cache/kv/small", "Accept: */*", 200},
		{"GET /v1/cache/kv/missing", "Accept: */*", 404},
		{"PUT /v1/cache/kv/small", "Content-Length: 0", 204},
		{"POST /v1/batch/kv", `{"keys":["small","missing"]}`, 200},
		{"POST /v1/batch/kv", `{"delete":["missing"]}`, 200},
		{"GET /v1/stats", "Accept: */*", 200},
		{"GET /metrics", "Accept: */*", 200},
	} {
		if got := s.do(t, c.line, c.header); got.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.line, c.header, got.StatusCode, c.status)
		}
	}
	if n := s.metric(t, "kring_response_connections_closed_total"); n != 0 {
		t.Errorf("%v connections were closed, though nothing needed room", n)
	}
	again := s.stuck(t, "a") // the same value is charged once
	eventually(t, "both are being answered", func() bool { return s.metric(t, "kring_http_requests_in_flight") == 2 })
	if n := s.metric(t, "kring_response_bytes"); n != size {
		t.Errorf("%v bytes are charged for two answers with one value", n)
	}
	eventually(t, "another value is sent", func() bool {
		got := s.do(t, "GET /v1/cache/kv/b")
		if got.StatusCode == 503 && (!strings.Contains(got.body, "/problems/overloaded") || got.Header.Get("Retry-After") != "1" || got.Header.Get("Age") != "") {
			t.Errorf("refused with %v %s", got.Header, got.body)
		}
		return got.StatusCode == 200 && len(got.body) == size
	})
	for _, conn := range []net.Conn{stuck, again} {
		if n, err := io.Copy(io.Discard, conn); n >= size {
			t.Errorf("one that took nothing got %d bytes in the end (%v)", n, err)
		}
	}
	eventually(t, "all is given back", func() bool { return s.metric(t, "kring_response_bytes") == 0 })
	if n := s.metric(t, "kring_response_connections_closed_total"); n != 2 {
		t.Errorf("%v connections were closed, want 2", n)
	}
}

// TestASlowButSteadyReaderIsNotClosed: the bytes that the client's TCP has taken
// count as progress, even during one long write of the node.
func TestASlowButSteadyReaderIsNotClosed(t *testing.T) {
	const size = 4 << 20
	s := serve(t, largest(size), func(c *setup) { c.options.Responses = httpapi.NewResponses(size + size/2) })
	for _, key := range []string{"a", "b", "c"} {
		s.do(t, "PUT /v1/cache/kv/"+key, strings.Repeat(key, size))
	}
	slow := s.stuck(t, "a")
	if err := slow.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a value is charged", func() bool { return s.metric(t, "kring_response_bytes") == size })
	refused := make(chan answer, 1)
	go func() {
		conn := s.dial(t)
		defer conn.Close()
		refused <- exchange(t, conn, bufio.NewReader(conn), request("GET /v1/cache/kv/b", nil, ""))
	}()
	// It reads a little at a time for as long as another waits in vain.
	buf := make([]byte, 1024)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for rounds := 0; rounds < 3; {
		select {
		case got := <-refused:
			if got.StatusCode != 503 {
				t.Errorf("another value was answered with %d while there was no room", got.StatusCode)
			}
			rounds++
			go func() {
				conn := s.dial(t)
				defer conn.Close()
				refused <- exchange(t, conn, bufio.NewReader(conn), request("GET /v1/cache/kv/c", nil, ""))
			}()
		case <-tick.C:
			if _, err := slow.Read(buf); err != nil {
				t.Fatalf("the slow reader was cut off: %v", err)
			}
		}
	}
	if n := s.metric(t, "kring_response_connections_closed_total"); n != 0 {
		t.Errorf("%v connections were closed", n)
	}
	closed(t, slow)
	if got := <-refused; got.StatusCode != 200 {
		t.Errorf("after it is gone: %d", got.StatusCode)
	}
}

// TestALongBatchHasFewValuesInMemory: values that are written make room for the
// next of the same batch.
func TestALongBatchHasFewValuesInMemory(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.Responses = httpapi.NewResponses(4 << 20) })
	var keys []string
	for i := range 12 {
		keys = append(keys, "k"+itoa(i))
		s.do(t, "PUT /v1/cache/kv/"+keys[i], strings.Repeat("x", 1<<20))
	}
	got := s.do(t, "POST /v1/batch/kv", `{"keys":["`+strings.Join(keys, `","`)+`"]}`)
	if n := strings.Count(got.body, `"status":200`); n != len(keys) {
		t.Errorf("%d of %d values came", n, len(keys))
	}
	if n := s.metric(t, "kring_response_refused_total"); n != 0 {
		t.Errorf("%v requests were refused", n)
	}
}
