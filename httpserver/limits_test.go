package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer serves on a socket of its own, until the test ends.
type testServer struct {
	*Server
	addr string
}

func serve(t *testing.T, c Config, h http.HandlerFunc, wrap func(net.Listener) net.Listener) *testServer {
	t.Helper()
	if c.MaxConnections == 0 {
		c.MaxConnections = 100
	}
	c.ConnectionsPerAddress, c.MaxHeaderBytes, c.Log = 100, 1000, slog.New(slog.DiscardHandler)
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 10 * time.Second
	}
	c.Explain = func(status int) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 %d Explained\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
	}
	s := &testServer{Server: New(c)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	if wrap != nil {
		l = wrap(l)
	}
	srv := s.HTTP(h)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(s.Listener(l)) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

// client is one connection to a server.
type client struct {
	t    *testing.T
	conn net.Conn
	*bufio.Reader
}

func (s *testServer) dial(t *testing.T) *client {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &client{t, conn, bufio.NewReader(conn)}
}

// ask sends something, and returns the status and the body of the answer.
func (c *client) ask(sent string) (*http.Response, string) {
	c.t.Helper()
	c.send(sent)
	return c.answer()
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	res, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res, string(body)
}

const get = "GET / HTTP/1.1\r\nHost: k\r\n\r\n"

func ok(http.ResponseWriter, *http.Request) {}

// Explain answers every request that package http cannot read, be it the first of
// its connection or a later one.
func TestUnreadableRequestsAreExplained(t *testing.T) {
	s := serve(t, Config{}, ok, nil)
	for status, request := range map[int]string{
		400: "GET / HTTP/1.1\r\n\r\n",
		417: "GET / HTTP/1.1\r\nHost: k\r\nExpect: x\r\n\r\n",
		431: "GET / HTTP/1.1\r\nHost: k\r\nA: " + strings.Repeat("a", 20000) + "\r\n\r\n",
		501: "POST / HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: x\r\n\r\n",
		505: "GET / HTTP/3.0\r\nHost: k\r\n\r\n",
	} {
		for _, before := range []int{0, 2} {
			c := s.dial(t)
			for range before {
				if res, _ := c.ask(get); res.StatusCode != 200 {
					t.Fatalf("status %d", res.StatusCode)
				}
			}
			if res, _ := c.ask(request); res.StatusCode != status || !strings.HasSuffix(res.Status, "Explained") || !res.Close {
				t.Errorf("after %d requests: %s, want %d by Explain", before, res.Status, status)
			}
		}
	}
}

// A handler's own errors are not explained, even if they look alike.
func TestAHandlersErrorIsItsOwn(t *testing.T) {
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "mine", 400) }, nil)
	if res, body := s.dial(t).ask(get); res.StatusCode != 400 || body != "mine\n" {
		t.Errorf("%s %q", res.Status, body)
	}
}

// At the limit the connection that has been idle longest makes room. When all are
// being answered, the new one is told 503.
func TestIdleConnectionsMakeRoomAndBusyOnesDoNot(t *testing.T) {
	release, busy := make(chan struct{}), make(chan struct{}, 2)
	s := serve(t, Config{MaxConnections: 2}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			busy <- struct{}{}
			<-release
		}
	}, nil)
	idle, first := s.dial(t), s.dial(t)
	first.send(strings.Replace(get, "/", "/slow", 1))
	<-busy
	second := s.dial(t)
	second.send(strings.Replace(get, "/", "/slow", 1))
	<-busy
	if _, err := idle.ReadByte(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the idle one: %v, want it closed", err)
	}
	if res, _ := s.dial(t).answer(); res.StatusCode != 503 {
		t.Errorf("one too many: %s", res.Status)
	}
	if got := s.Stats(); got != (Stats{Open: 2, Refused: 1, Displaced: 1}) {
		t.Errorf("%+v", got)
	}
	if s.CloseIdle() {
		t.Error("a busy connection was closed")
	}
	close(release)
	for _, c := range []*client{first, second} {
		if res, _ := c.answer(); res.StatusCode != 200 {
			t.Error(res.Status)
		}
	}
}

// A hijacked connection is no longer counted, nor closed for others.
func TestAHijackedConnectionIsNotCounted(t *testing.T) {
	taken := make(chan net.Conn, 1)
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
		}
		taken <- conn
	}, nil)
	s.dial(t).send(get)
	conn := <-taken
	if s.Stats().Open != 0 || s.CloseIdle() {
		t.Errorf("%+v", s.Stats())
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// Two readers of a request of HTTP/1.0 must see the same end of it.
func TestFramingOfHTTP10(t *testing.T) {
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if MustClose(r) {
			w.Header().Set("Connection", "close")
		}
		if err := CheckFraming(r); err != nil {
			w.WriteHeader(400)
			fmt.Fprint(w, err)
		}
	}, nil)
	for request, want := range map[string]string{
		"GET / HTTP/1.0\r\n\r\n":                                                   "",
		"PUT / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx":                             "",
		"PUT / HTTP/1.0\r\n\r\n":                                                   errUnsizedOld.Error(),
		"PUT / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n":                     errCodedOld.Error(),
		"PUT / HTTP/1.0\r\nContent-Length: 1\r\nTransfer-Encoding: x\r\n\r\n":      errCodedOld.Error(),
		"PUT / HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "",
	} {
		if res, body := s.dial(t).ask(request); body != want || !res.Close {
			t.Errorf("%q: %s %q, close %v", request, res.Status, body, res.Close)
		}
	}
	c := s.dial(t)
	c.ask(get)
	if res, body := c.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"); body != errNotFirst.Error() || !res.Close {
		t.Errorf("second on its connection: %s %q", res.Status, body)
	}
}

// A body has its limit, and each way to end it has its error.
func TestALimitedBody(t *testing.T) {
	bodies := NewBodies(1<<20, errFull)
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		room := bodies.Share(r)
		defer room.Release()
		r = LimitBody(w, r, 1000)
		body, err := room.ReadBody(r, 1000)
		switch {
		case errors.Is(err, ErrBodyTooLarge):
			TurnAway(r)
			w.Header().Set("Connection", "close")
			w.WriteHeader(413)
		case err != nil:
			w.WriteHeader(400)
		}
		fmt.Fprint(w, len(body), errors.Is(err, ErrBodyShort))
	}, nil)
	big := strings.Repeat("x", 5<<20)
	for name, c := range map[string]struct{ sent, want string }{
		"sized":            {"Content-Length: 1000\r\n\r\n" + big[:1000], "200 1000 false"},
		"chunked":          {"Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + big[:1000] + "\r\n0\r\n\r\n", "200 1000 false"},
		"too large":        {"Content-Length: 5242880\r\n\r\n" + big, "413 0 false"},
		"too large chunks": {"Transfer-Encoding: chunked\r\n\r\n500000\r\n" + big + "\r\n0\r\n\r\n", "413 0 false"},
		"broken chunk":     {"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400 0 true"},
		"none":             {"\r\n", "200 0 false"},
	} {
		res, body := s.dial(t).ask("PUT / HTTP/1.1\r\nHost: k\r\n" + c.sent)
		if got := strconv.Itoa(res.StatusCode) + " " + body; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	short := s.dial(t)
	short.send("PUT / HTTP/1.1\r\nHost: k\r\nContent-Length: 1000\r\n\r\n" + big[:900])
	if err := short.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if res, body := short.answer(); res.StatusCode != 400 || body != "0 true" {
		t.Errorf("cut off: %s %q", res.Status, body)
	}
	if in := bodies.Stats().InUse; in != 0 {
		t.Errorf("%d bytes are in use afterwards", in)
	}
}

// Without room, the client that sends no more of its body makes some, and so does
// the one that reads nothing of its answer.
func TestQuietClientsMakeRoom(t *testing.T) {
	const size = 8 << 20 // more than the kernel takes of an answer that nobody reads
	bodies, answers := NewBodies(100, errFull), NewAnswers(size, errFull, func(v *value) int64 { return int64(len(v.bytes)) })
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			room := bodies.Share(r)
			defer room.Release()
			if _, err := room.ReadBody(LimitBody(w, r, 100), 100); err != nil {
				w.WriteHeader(400)
			}
			return
		}
		room := answers.Answer(r)
		defer room.Release()
		values := []*value{{bytes: make([]byte, size)}}
		if err := room.Hold(r.Context(), values); err != nil || values[0] == nil {
			w.WriteHeader(503)
			return
		}
		w.Write(values[0].bytes)
	}, nil)
	until := func(what string, budget *Budget, inUse int64) {
		t.Helper()
		for range 1000 {
			if budget.Stats().InUse == inUse {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatalf("waited in vain: %s", what)
	}
	stuck := s.dial(t)
	stuck.send("PUT / HTTP/1.1\r\nHost: k\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("x", 90))
	until("a body is held", bodies, 100)
	if res, _ := s.dial(t).ask("PUT / HTTP/1.1\r\nHost: k\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("x", 100)); res.StatusCode != 200 {
		t.Errorf("another body: %s", res.Status)
	}
	if res, _ := stuck.answer(); res.StatusCode != 400 {
		t.Errorf("the one that sent no more: %s", res.Status)
	}
	reader := s.dial(t)
	reader.send(get)
	until("an answer is held", &answers.Budget, size)
	var res *http.Response
	for range 3 { // its room may come when the value has been collected
		if res, _ = s.dial(t).ask(get); res.StatusCode == 200 {
			break
		}
	}
	if res.StatusCode != 200 {
		t.Errorf("another answer: %s", res.Status)
	}
	if n, err := io.Copy(io.Discard, reader); n >= size {
		t.Errorf("the one that read nothing got %d bytes, %v", n, err)
	}
	if bodies.Stats().TurnedAway != 1 || answers.Stats().TurnedAway != 1 {
		t.Errorf("turned away: %+v, %+v", bodies.Stats(), answers.Stats())
	}
}

// A list is read through a buffer that is made when its first bytes are there.
func TestABufferedBody(t *testing.T) {
	s := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		from, err := BufferBody(LimitBody(w, r, 1<<20), 100)
		if err != nil {
			w.WriteHeader(400)
			return
		}
		n, err := io.Copy(io.Discard, from)
		fmt.Fprint(w, n, err)
	}, nil)
	for _, size := range []int{0, 1, 100, 5000} {
		sent := fmt.Sprintf("PUT / HTTP/1.1\r\nHost: k\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
		if _, body := s.dial(t).ask(sent); body != strconv.Itoa(size)+" <nil>" {
			t.Errorf("%d bytes: %s", size, body)
		}
	}
}

// scarce is a listener in a process that may have few connections open. Like
// accept(2), it fails only when a client is there.
type scarce struct {
	net.Listener
	free    chan struct{} // one for each connection that may be opened
	pending net.Conn      // has come, and has no descriptor yet
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

// Idle connections give up their descriptors for clients that ask.
func TestFewDescriptors(t *testing.T) {
	free := make(chan struct{}, 3)
	for range cap(free) {
		free <- struct{}{}
	}
	s := serve(t, Config{}, ok, func(l net.Listener) net.Listener { return &scarce{Listener: l, free: free} })
	for range 10 {
		s.dial(t)
	}
	for range 5 {
		if res, _ := s.dial(t).ask(get); res.StatusCode != 200 {
			t.Error(res.Status)
		}
	}
}
