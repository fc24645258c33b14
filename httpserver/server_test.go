package httpserver

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// No client may hold a connection for ever: each stage has its time limit, which
// follows the request timeout.
func TestEachStageOfAConnectionHasItsTime(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 30 * time.Second} {
		s := New(Config{RequestTimeout: timeout, MaxHeaderBytes: 100, Log: slog.New(slog.DiscardHandler)}).HTTP(http.NotFoundHandler())
		for name, c := range map[string][2]time.Duration{
			"a header":         {s.ReadHeaderTimeout, min(5*time.Second, timeout+2*time.Second)},
			"a request":        {s.ReadTimeout, timeout + 2*time.Second},
			"an answer":        {s.WriteTimeout, timeout + 62*time.Second},
			"the next request": {s.IdleTimeout, 90 * time.Second},
		} {
			if c[0] != c[1] {
				t.Errorf("with %v for a request: %s may take %v, want %v", timeout, name, c[0], c[1])
			}
		}
		if s.MaxHeaderBytes != 100 {
			t.Errorf("%d bytes of header", s.MaxHeaderBytes)
		}
	}
}

// An address may have as many connections as it likes, one after the other: each
// gives its place back when it closes, and once only.
func TestClosedConnectionsMakeRoomForTheirAddress(t *testing.T) {
	s := newConnections(10, 2, 100, nil)
	admit := func() (*connection, bool) {
		raw, other := net.Pipe()
		t.Cleanup(func() { other.Close() })
		c, ok := s.admit(raw)
		if ok {
			c.works() // it cannot be displaced
		}
		return c, ok
	}
	for range 5 {
		first, ok := admit()
		second, also := admit()
		if !ok || !also {
			t.Fatal("two were not admitted")
		}
		if _, ok := admit(); ok {
			t.Fatal("a third was admitted")
		}
		for range 2 { // the second time has no effect
			first.Close()
		}
		third, ok := admit()
		if !ok {
			t.Fatal("none was admitted in place of one that was closed")
		}
		if _, ok := admit(); ok {
			t.Fatal("a connection that was closed twice made room for two")
		}
		second.Close()
		third.Close()
		if s.count() != 0 || len(s.from) != 0 {
			t.Fatalf("%d are open, of %d addresses", s.count(), len(s.from))
		}
	}
}
