package httpapi

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

// script is a connection on which a client asks the same again and again and
// throws away what it reads. It costs next to nothing, so that what is measured
// is the server.
type script struct {
	net.Conn
	request []byte
	left    int
	at      int
	closed  chan struct{}
}

func (s *script) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.request[s.at:])
	if s.at += n; s.at == len(s.request) {
		s.at = 0
		s.left--
	}
	return n, nil
}

func (s *script) Write(p []byte) (int, error) { return len(p), nil }
func (s *script) Close() error                { close(s.closed); return nil }
func (s *script) LocalAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// once is a listener that accepts one connection.
type once struct {
	conns chan net.Conn
	end   chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	select {
	case c := <-o.conns:
		return c, nil
	case <-o.end:
		return nil, net.ErrClosed
	}
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.TCPAddr{} }

const hitRequest = "GET /v1/cache/kv/some-key HTTP/1.1\r\nHost: 127.0.0.1:8001\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\n\r\n"

func benchmarkServer(b *testing.B, server *http.Server, wrap func(net.Listener) net.Listener) {
	benchmarkRequest(b, server, wrap, hitRequest)
}

func benchmarkRequest(b *testing.B, server *http.Server, wrap func(net.Listener) net.Listener, request string) {
	b.ReportAllocs()
	l := &once{conns: make(chan net.Conn, 1), end: make(chan struct{})}
	s := &script{request: []byte(request), left: b.N, closed: make(chan struct{})}
	l.conns <- s
	done := make(chan error, 1)
	b.ResetTimer()
	go func() { done <- server.Serve(wrap(l)) }()
	<-s.closed
	b.StopTimer()
	close(l.end)
	<-done
}

// BenchmarkHit is a hit as the server answers it, but for the system calls.
func BenchmarkHit(b *testing.B) {
	a := newTestAPI(b)
	if _, err := a.cluster.Put(b.Context(), &cache.Request{
		Op: cache.OpPut, Key: cache.Key{Group: "kv", Key: "some-key"}, Value: make([]byte, 1000), ContentType: "text/plain", ID: 1,
	}); err != nil {
		b.Fatal(err)
	}
	benchmarkServer(b, a.Server(), a.Listener)
}

// BenchmarkBatch is a batch of a hundred hits.
func BenchmarkBatch(b *testing.B) {
	a := newTestAPI(b)
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = "key-" + strconv.Itoa(i)
		if _, err := a.cluster.Put(b.Context(), &cache.Request{
			Op: cache.OpPut, Key: cache.Key{Group: "kv", Key: keys[i]}, Value: bytes.Repeat([]byte("x"), 1000), ContentType: "text/plain", ID: uint64(i + 1),
		}); err != nil {
			b.Fatal(err)
		}
	}
	body := `{"keys":["` + strings.Join(keys, `","`) + `"]}`
	request := "POST /v1/batch/kv HTTP/1.1\r\nHost: 127.0.0.1:8001\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	benchmarkRequest(b, a.Server(), a.Listener, request)
}

// BenchmarkLargeHit is a hit of a value that is charged to the budget of answers.
func BenchmarkLargeHit(b *testing.B) {
	a := newTestAPI(b)
	if _, err := a.cluster.Put(b.Context(), &cache.Request{
		Op: cache.OpPut, Key: cache.Key{Group: "kv", Key: "some-key"}, Value: make([]byte, 8<<10), ContentType: "text/plain", ID: 1,
	}); err != nil {
		b.Fatal(err)
	}
	benchmarkServer(b, a.Server(), a.Listener)
}

// BenchmarkBareGin is the same value by Gin and nothing else: what a hit is
// compared with.
func BenchmarkBareGin(b *testing.B) {
	benchmarkGin(b, func(c *gin.Context, value []byte) { c.Data(http.StatusOK, "text/plain", value) })
}

// BenchmarkGinWithHeaders is Gin with the headers that a hit must have.
func BenchmarkGinWithHeaders(b *testing.B) {
	benchmarkGin(b, func(c *gin.Context, value []byte) {
		c.Header("ETag", `"0123456789abcdef"`)
		c.Header("Age", "0")
		c.Header("Cache-Control", "no-cache")
		c.Header("Cache-Status", "kring-1; hit")
		c.Header("Kring-Node", "kring-1")
		c.Header("Kring-Owner", "kring-1")
		c.Header("X-Request-ID", "0123456789-1")
		c.Data(http.StatusOK, "text/plain", value)
	})
}

func benchmarkGin(b *testing.B, answer func(c *gin.Context, value []byte)) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	value := make([]byte, 1000)
	e.GET("/v1/cache/:group/*key", func(c *gin.Context) { answer(c, value) })
	benchmarkServer(b, &http.Server{Handler: e}, func(l net.Listener) net.Listener { return l })
}
