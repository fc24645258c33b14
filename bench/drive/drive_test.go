//go:build linux

package drive_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kring/bench/drive"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server and returns its address.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// run sends count requests on each of four connections.
func run(t *testing.T, addr string, count int, requests ...drive.Request) drive.Result {
	t.Helper()
	r, err := drive.Run(context.Background(), drive.Config{
		Targets:     []drive.Target{{Addr: addr, Requests: requests}},
		Connections: 4, Threads: 2, CPU: -1, Duration: time.Minute, Count: count,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunCountsWhatIsRight(t *testing.T) {
	var asked atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, strings.Repeat("x", len(r.URL.Path)))
	})
	r := run(t, addr, 25, drive.Get(addr, "/a", 2), drive.Get(addr, "/long", 5))
	if r.Requests != 100 || r.Wrong != 0 || asked.Load() != 100 {
		t.Errorf("%+v, the server was asked %d times", r, asked.Load())
	}
	if r.P50 <= 0 || r.P99 < r.P50 || r.RPS() <= 0 {
		t.Errorf("p50 %v, p99 %v, %.0f/s", r.P50, r.P99, r.RPS())
	}
}

func TestRunSeesWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		handle     http.HandlerFunc
		request    func(addr string) drive.Request
	}{
		{
			"another status", "status 503", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) },
			func(addr string) drive.Request { return drive.Get(addr, "/", 3) },
		},
		{
			"another length", "2 bytes, want 3", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "no") },
			func(addr string) drive.Request { return drive.Get(addr, "/", 3) },
		},
		{
			"a mark too few", "there 1 times, want 2", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok no") },
			func(addr string) drive.Request {
				r := drive.Get(addr, "/", 5)
				r.Mark, r.Marks = []byte("ok"), 2
				return r
			},
		},
		{
			"broken off", "connection to", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "3")
				fmt.Fprint(w, "n")
				panic(http.ErrAbortHandler)
			},
			func(addr string) drive.Request { return drive.Get(addr, "/", 3) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr := serve(t, tc.handle)
			r := run(t, addr, 2, tc.request(addr))
			if r.Requests != 0 || r.Wrong != 8 || r.Sample == nil || !strings.Contains(r.Sample.Error(), tc.want) {
				t.Errorf("%d right, %d wrong: %v", r.Requests, r.Wrong, r.Sample)
			}
		})
	}
}

func TestRunGoesOnAfterAConnectionIsClosed(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "ok")
	})
	if r := run(t, addr, 3, drive.Get(addr, "/", 2)); r.Requests != 12 || r.Wrong != 0 || r.Reconnects != 12 {
		t.Errorf("%+v", r)
	}
}

func TestRunSendsLongRequests(t *testing.T) {
	const length = 4 << 20 // more than a socket takes at once
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		buf := make([]byte, 64<<10)
		for {
			m, err := r.Body.Read(buf)
			n += m
			if err != nil {
				break
			}
		}
		fmt.Fprint(w, n)
	})
	r := drive.Request{
		Bytes:  fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", length)),
		Length: len(fmt.Sprint(length)), Mark: fmt.Append(nil, length), Marks: 1,
	}
	if res := run(t, addr, 2, r); res.Requests != 8 || res.Wrong != 0 {
		t.Errorf("%+v", res)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var asked atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 50 {
			cancel()
		}
		fmt.Fprint(w, "ok")
	})
	r, err := drive.Run(ctx, drive.Config{
		Targets:     []drive.Target{{Addr: addr, Requests: []drive.Request{drive.Get(addr, "/", 2)}}},
		Connections: 2, Threads: 1, CPU: -1, Duration: time.Hour,
	})
	if err != nil || r.Wrong != 0 || r.Requests < 49 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunSaysWhatCannotBe(t *testing.T) {
	for _, cfg := range []drive.Config{
		{},
		{Targets: []drive.Target{{Addr: "nowhere"}}, Connections: 1, Threads: 1},
		{Targets: []drive.Target{{Addr: "127.0.0.1:1"}}, Connections: 1, Threads: 1}, // nobody listens there
	} {
		if _, err := drive.Run(context.Background(), cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}
