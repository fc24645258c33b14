package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/client"
)

// A node's name changes to another machine while the old one lives on. Under
// load the connections are never idle, and still the client is at the new
// machine after MaxConnAge, without an error.
func TestAKeptConnectionHasAGreatestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network{}
		for _, host := range []string{"old", "new"} {
			n.serve(t, host, func(http.ResponseWriter, *http.Request) {})
		}
		var moved atomic.Bool
		var dials atomic.Int64
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			dials.Add(1)
			if moved.Load() {
				return n.dial(ctx, network, "new:80")
			}
			return n.dial(ctx, network, "old:80")
		}
		const workers, age = 4, time.Minute
		c := newClient(t, client.Config{Nodes: []string{"http://name"}, Dial: dial, MaxConnAge: age})
		begun := time.Now()
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for time.Since(begun) < 3*age {
					at := time.Now()
					v, err := c.Get(t.Context(), "docs", "a")
					if err != nil {
						t.Errorf("after %v: %v", time.Since(begun), err)
						return
					}
					if v.Node == "old" && moved.Load() && at.Sub(begun) > age {
						t.Errorf("%v after the name has moved the old machine answers", time.Since(begun))
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		moved.Store(true)
		wg.Wait()
		// There are three to four generations, and each worker may dial in
		// each.
		if got := dials.Load(); got < 4 || got > 5*workers {
			t.Errorf("%d connections were made in three times MaxConnAge by %d callers", got, workers)
		}
	})
}

// A write whose kept connection closes before a byte was written is sent over
// another connection to the same node.
func TestAWriteOnAClosedConnectionIsSentOverAnother(t *testing.T) {
	node := newNode(t, "n", func(w http.ResponseWriter, r *http.Request) { say(204, "")(w, r) })
	dead := errors.New("closed before a byte was written")
	var fail atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &mortal{Conn: conn, fail: &fail, err: dead}, err
	}
	c := newClient(t, client.Config{Dial: dial}, node)
	for name, o := range map[string]client.PutOptions{"plain": {}, "conditional": {IfAbsent: true}} {
		if _, err := c.Put(t.Context(), "docs", "a", []byte("first"), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		fail.Store(true)
		before := node.asked.Load()
		if _, err := c.Put(t.Context(), "docs", "a", []byte("second"), o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, body := node.seen(); body != "second" || node.asked.Load() != before+1 {
			t.Errorf("%s: the node has seen %q in %d requests", name, body, node.asked.Load()-before)
		}
	}
	if got := c.Counters().Retries; got != 0 {
		t.Errorf("%d retries are counted of what no node has seen", got)
	}
}

// mortal is a connection whose next write fails once, when the test says so.
type mortal struct {
	net.Conn
	fail *atomic.Bool
	err  error
}

func (m *mortal) Write(p []byte) (int, error) {
	if m.fail.CompareAndSwap(true, false) {
		return 0, m.err
	}
	return m.Conn.Write(p)
}

// The rest of a slow body is read over a connection whose generation has ended.
func TestAnAnswerOutlivesTheAgeOfItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network{}
		n.serve(t, "first", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/slow") {
				_, _ = io.WriteString(w, "a")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Second)
				_, _ = io.WriteString(w, "b")
			}
		})
		var open atomic.Int64
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := n.dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			open.Add(1)
			return &counted{Conn: conn, close: sync.OnceFunc(func() { open.Add(-1) })}, nil
		}
		c := newClient(t, client.Config{Nodes: []string{"http://first"}, Dial: dial, MaxConnAge: time.Second})
		var wg sync.WaitGroup
		wg.Go(func() {
			if v, err := c.Get(t.Context(), "docs", "slow"); err != nil || string(v.Body) != "ab" {
				t.Errorf("got %+v, %v", v, err)
			}
		})
		for range 20 {
			if _, err := c.Get(t.Context(), "docs", "fast"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if got := open.Load(); got > 2 {
				t.Errorf("%d connections are open, want the one of the slow answer and a new one", got)
				break
			}
			time.Sleep(time.Second)
		}
		wg.Wait()
	})
}

// counted counts its close.
type counted struct {
	net.Conn
	close func()
}

func (c *counted) Close() error {
	c.close()
	return c.Conn.Close()
}
