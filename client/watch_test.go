package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
	"kring/client"
)

// pipes is a listener in memory, for tests on virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// network is the listeners by host name.
type network map[string]*pipes

func (n network) serve(t *testing.T, host string, h http.HandlerFunc) {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	n[host+":80"] = p
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Kring-Node", host)
		h(w, r)
	})}
	done := make(chan error, 1)
	go func() { done <- s.Serve(p) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func (n network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case n[addr].conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A slow node answers other calls; a hung node does not.
func TestSilenceIsNotSlowness(t *testing.T) {
	const silence, slowness = 200 * time.Millisecond, 5 * time.Second
	for _, tt := range []struct {
		name   string
		others bool // the node answers other calls meanwhile
		node   string
		after  time.Duration
	}{
		{"slow", true, "first", slowness},
		{"silent", false, "second", silence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := network{}
				for _, host := range []string{"first", "second"} {
					n.serve(t, host, func(w http.ResponseWriter, r *http.Request) {
						if host == "first" && strings.HasSuffix(r.URL.Path, "/slow") {
							hold := time.NewTimer(slowness)
							defer hold.Stop()
							select {
							case <-hold.C:
							case <-r.Context().Done():
								return
							}
						}
					})
				}
				c := newClient(t, client.Config{
					Nodes: []string{"http://first", "http://second"}, Policy: "round_robin",
					SilenceTimeout: silence, PerTryTimeout: time.Minute, Dial: n.dial,
				})
				begun := time.Now()
				var calls sync.WaitGroup
				calls.Go(func() {
					v, err := c.Get(t.Context(), "docs", "slow")
					if err != nil {
						t.Errorf("the slow call: %v", err)
						return
					}
					if took := time.Since(begun); v.Node != tt.node || took != tt.after {
						t.Errorf("the slow call was answered by %s after %v, want %s after %v", v.Node, took, tt.node, tt.after)
					}
				})
				synctest.Wait()
				tick := time.NewTicker(silence / 4)
				defer tick.Stop()
				for tt.others && time.Since(begun) < slowness {
					if _, err := c.Get(t.Context(), "docs", "fast"); err != nil {
						t.Errorf("a fast call: %v", err)
					}
					<-tick.C
				}
				calls.Wait()
			})
		})
	}
}

// On a busy machine a living node may be silent for longer than SilenceTimeout
// while the only other node is dead. The call must not fail early then.
func TestSilentNodeIsAskedAgainWhenNoOtherAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const starved = 3 * time.Second
		var start atomic.Int64 // of the call; handlers may outlive it
		begin := func() { start.Store(time.Now().UnixNano()) }
		took := func() time.Duration { return time.Duration(time.Now().UnixNano() - start.Load()) }
		n := network{}
		n.serve(t, "alive", func(_ http.ResponseWriter, r *http.Request) {
			hold := time.NewTimer(starved - took())
			defer hold.Stop()
			select {
			case <-hold.C:
			case <-r.Context().Done():
			}
		})
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "dead:80" {
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			}
			return n.dial(ctx, network, addr)
		}
		for _, nodes := range [][]string{{"http://alive", "http://dead"}, {"http://dead", "http://alive"}} {
			begin()
			c := newClient(t, client.Config{
				Nodes: nodes, Policy: "round_robin", Dial: dial, SilenceTimeout: 500 * time.Millisecond, PerTryTimeout: 2 * time.Second,
			})
			v, err := c.Get(t.Context(), "docs", "a")
			if err != nil || v.Node != "alive" || took() != starved {
				t.Errorf("%v: got %+v, %v after %v", nodes, v, err, took())
			}
		}
		// The call's own time-out still holds.
		begin()
		c := newClient(t, client.Config{
			Nodes: []string{"http://alive", "http://dead"}, Policy: "round_robin", Dial: dial, SilenceTimeout: 500 * time.Millisecond, Timeout: time.Second,
		})
		if _, err := c.Get(t.Context(), "docs", "a"); !errors.Is(err, client.ErrUnavailable) || took() != time.Second {
			t.Errorf("got %v after %v", err, took())
		}
	})
}

// A write waits to its end and is not repeated.
func TestSilentWriteIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network{}
		for _, host := range []string{"first", "second"} {
			n.serve(t, host, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}
		c := newClient(t, client.Config{Nodes: []string{"http://first", "http://second"}, Timeout: 7 * time.Second, Dial: n.dial})
		begun := time.Now()
		_, err := c.Delete(t.Context(), "docs", "a")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 7*time.Second || c.Counters().Retries != 0 {
			t.Errorf("got %v after %v with %d retries", err, time.Since(begun), c.Counters().Retries)
		}
	})
}

// Callers with a deadline shorter than the client's time-outs find out about a
// hung node, too.
func TestCallersWithShortDeadlinesLeaveAHungNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network{}
		n.serve(t, "first", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		n.serve(t, "second", func(http.ResponseWriter, *http.Request) {})
		c := newClient(t, client.Config{Nodes: []string{"http://first", "http://second"}, Policy: "round_robin", Dial: n.dial})
		late := 0
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if _, err := c.Get(ctx, "docs", "a"); errors.Is(err, context.DeadlineExceeded) {
				late++
			} else if err != nil {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		if late != balance.DefaultConfig().Health.MaxFails {
			t.Errorf("%d calls met the hung node, want those that it takes to find it out", late)
		}
	})
}
