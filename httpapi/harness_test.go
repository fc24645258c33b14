package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kring/cache"
	"kring/cluster"
	"kring/httpapi"
	"kring/internal/testlog"
	"kring/membership"
	"kring/peers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a node's HTTP surface on a socket of its own: a real cache, a ring
// of one, and an origin that is a function.
type server struct {
	addr   string
	api    *httpapi.API
	cache  *cache.Cache
	origin *origin
	log    *testlog.Buffer
	http   *http.Server
	// options are what api was built from.
	options httpapi.Options
}

// setup is what a test may change before the server starts.
type setup struct {
	cache   cache.Options
	peers   peers.Options
	options httpapi.Options
	// elsewhere, if not nil, is in place of the peers for all but the API itself.
	elsewhere *elsewhere
	server    func(*http.Server)
}

const testNode = "kring-1"

// serve starts a server that the test's end stops.
func serve(t testing.TB, change ...func(*setup)) *server {
	t.Helper()
	s := &server{origin: newOrigin(), log: &testlog.Buffer{}}
	docs := cache.DefaultGroupConfig("docs")
	docs.Origin = cache.OriginConfig{Pool: "docs", Path: "/docs/{key}"}
	docs.Jitter = 0
	docs.StaleIfError = 0
	kv := cache.DefaultGroupConfig("kv")
	kv.TTL = 0
	other := kv
	other.Name = "other"
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	conf := setup{
		cache: cache.Options{
			Node: testNode, Config: cache.DefaultConfig(), Loader: s.origin, Log: log,
			Groups: []cache.GroupConfig{docs, kv, other},
		},
		peers: peers.Options{
			Self: membership.Member{ID: testNode, URL: "http://127.0.0.1:8001", Weight: 1}, Config: membership.DefaultConfig(), Log: log,
		},
		options: httpapi.Options{Node: testNode, Version: "test", ClusterName: "kring", Limits: httpapi.DefaultLimits(), Log: log},
	}
	for _, f := range change {
		f(&conf)
	}
	var err error
	if s.cache, err = cache.New(conf.cache); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s.cache) })
	p, err := peers.New(conf.peers)
	if err != nil {
		t.Fatal(err)
	}
	conf.options.Cluster, conf.options.Peers = cluster.New(s.cache, p), p
	p.Start(conf.options.Cluster)
	t.Cleanup(func() { closed(t, p) })
	if conf.elsewhere != nil {
		conf.options.Cluster = cluster.New(s.cache, conf.elsewhere)
	}
	s.options = conf.options
	if s.api, err = httpapi.New(conf.options); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.http = s.api.Server()
	if conf.server != nil {
		conf.server(s.http)
	}
	done := make(chan error, 1)
	go func() { done <- s.http.Serve(s.api.Listener(l)) }()
	t.Cleanup(func() {
		closed(t, s.http)
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", s.log)
		}
	})
	return s
}

func closed(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// origin answers loads: the key's first word says how.
type origin struct {
	loads   atomic.Int64
	release chan struct{} // lets the loads of "slow …" go on
}

func newOrigin() *origin { return &origin{release: make(chan struct{})} }

func (o *origin) Load(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
	o.loads.Add(1)
	l.Sent.Add(1)
	word, _, _ := strings.Cut(l.Key.Key, " ")
	unsaid := cache.Freshness{TTL: -1, StaleWhileRevalidate: -1, StaleIfError: -1}
	e := &cache.Entry{Value: []byte("value of " + l.Key.Key), ContentType: "text/plain", LastModified: "Sat, 01 Nov 2025 10:00:00 GMT"}
	switch word {
	case "missing":
		return cache.Loaded{Entry: &cache.Entry{Negative: true}, Status: 404, Freshness: unsaid}, nil
	case "broken":
		return cache.Loaded{}, cache.ErrOriginFailed.Because(errors.New("secret detail: connection refused"))
	case "panicking":
		panic("the origin's client is broken")
	case "private": // or no-store
		unsaid.NoStore, unsaid.TTL = true, time.Minute
	case "varying": // Vary: *
		e.NoStore = true
	case "encoded":
		e.ContentEncoding = "br"
	case "slow":
		select {
		case <-o.release:
		case <-ctx.Done():
			return cache.Loaded{}, cache.ErrOriginTimeout.Because(ctx.Err())
		}
	}
	return cache.Loaded{Entry: e, Status: 200, Freshness: unsaid}, nil
}

// answer is an answer whose body was read.
type answer struct {
	*http.Response
	body string
}

// raw sends bytes over a new connection, as they are, and reads one answer.
func (s *server) raw(t testing.TB, request string) answer {
	t.Helper()
	conn := s.dial(t)
	defer closed(t, conn)
	return exchange(t, conn, bufio.NewReader(conn), request)
}

func (s *server) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func exchange(t testing.TB, conn net.Conn, br *bufio.Reader, request string) answer {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("send: %v", err)
	}
	method, _, _ := strings.Cut(request, " ")
	return read(t, br, method)
}

func read(t testing.TB, br *bufio.Reader, method string) answer {
	t.Helper()
	res, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read the answer's body: %v", err)
	}
	closed(t, res.Body)
	return answer{res, string(body)}
}

// do sends a request line, header lines and, if one is given, a body.
func (s *server) do(t testing.TB, line string, rest ...string) answer {
	t.Helper()
	header, body := rest, ""
	if n := len(rest); n > 0 && !strings.Contains(rest[n-1], ": ") {
		header, body = rest[:n-1], rest[n-1]
	}
	return s.raw(t, request(line, header, body))
}

// metric reads one metric, whose name includes its labels exactly. It is 0 if
// there is no such metric.
func (s *server) metric(t testing.TB, name string) float64 {
	t.Helper()
	for line := range strings.Lines(s.do(t, "GET /metrics").body) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return v
		}
	}
	return 0
}

// request writes a request. A body gets its length unless the header has it.
func request(line string, header []string, body string) string {
	var b strings.Builder
	b.WriteString(line + " HTTP/1.1\r\nHost: kring\r\n")
	sized := body == ""
	for _, h := range header {
		b.WriteString(h + "\r\n")
		name, _, _ := strings.Cut(strings.ToLower(h), ":")
		sized = sized || name == "content-length" || name == "transfer-encoding"
	}
	if !sized {
		b.WriteString("Content-Length: " + itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

// eventually waits for a condition that something else brings about.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// file writes a file of the test's own and returns its path.
func file(t testing.TB, content string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "file")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Clean(f.Name())
}
