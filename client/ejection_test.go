package client_test

import (
	"context"
	"errors"
	"fmt"
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

// cluster is three nodes: one good, one dead, one hung.
type cluster struct {
	network
	dead  atomic.Int64 // attempted connections
	hung  atomic.Int64 // calls to the hung node, without probes
	woken chan struct{}
	back  atomic.Int64 // calls that the hung node answered after it woke
}

func threeNodes(t *testing.T) *cluster {
	c := &cluster{network: network{}, woken: make(chan struct{})}
	c.serve(t, "good", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/overload") {
			problem(503, "overloaded")(w, r)
			return
		}
		written(w, r)
	})
	c.serve(t, "hung", func(w http.ResponseWriter, r *http.Request) {
		probe := strings.HasSuffix(r.URL.Path, "/readyz")
		if !probe {
			c.hung.Add(1)
		}
		// The server notices that the client leaves only after it has read the
		// body.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		select {
		case <-c.woken:
			if !probe {
				c.back.Add(1)
			}
			written(w, r)
		case <-r.Context().Done():
		}
	})
	return c
}

// written answers a write as a node does.
func written(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.WriteHeader(http.StatusNoContent)
	}
}

func (c *cluster) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if addr == "dead:80" {
		c.dead.Add(1)
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	return c.network.dial(ctx, network, addr)
}

func (c *cluster) client(t *testing.T, policy string) *client.Client {
	return newClient(t, client.Config{
		Nodes: []string{"http://dead", "http://hung", "http://good"}, Policy: policy,
		SilenceTimeout: 500 * time.Millisecond, PerTryTimeout: 2 * time.Second, Dial: c.dial,
	})
}

// Of three nodes one is dead and one hung. A few calls wait for a short,
// bounded time, and all others go to the good node at once, whatever the
// callers do and however long it lasts.
func TestADeadAndAHungNodeCostAFewCallsAShortWait(t *testing.T) {
	const workers, minutes = 8, 1
	get := func(ctx context.Context, c *client.Client) error { _, err := c.Get(ctx, "docs", "a"); return err }
	put := func(ctx context.Context, c *client.Client) error {
		_, err := c.Put(ctx, "docs", "a", []byte("x"), client.PutOptions{})
		return err
	}
	for _, tt := range []struct {
		name  string
		call  func(ctx context.Context, c *client.Client) error
		bound time.Duration // of one call
	}{
		{"reads", get, 500 * time.Millisecond},
		{"writes", put, 30 * time.Second}, // those that asked the hung node before it was known to hang
	} {
		for _, policy := range []string{"", "least_assigned", "least_in_flight"} {
			t.Run(fmt.Sprint(tt.name, " ", policy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					three := threeNodes(t)
					c := three.client(t, policy)
					begun := time.Now()
					var calls, slow, failed atomic.Int64
					var wg sync.WaitGroup
					for range workers {
						wg.Go(func() {
							for time.Since(begun) < minutes*time.Minute {
								at := time.Now()
								err := tt.call(t.Context(), c)
								took := time.Since(at)
								calls.Add(1)
								if took > 100*time.Millisecond {
									slow.Add(1)
								}
								if err != nil {
									failed.Add(1)
								}
								if took > tt.bound || err != nil && tt.name == "reads" {
									t.Errorf("a call took %v: %v", took, err)
								}
								time.Sleep(200 * time.Millisecond)
							}
						})
					}
					wg.Wait()
					// Each worker may ask it once before it is known to hang.
					if n := three.hung.Load(); n > workers || slow.Load() > workers || failed.Load() > workers {
						t.Errorf("%d calls came to the hung node, %d were slow and %d failed, of %d; want one of each worker at most",
							n, slow.Load(), failed.Load(), calls.Load())
					}
					if n := three.dead.Load(); n > 2*workers+minutes*60 { // calls, and a probe a second
						t.Errorf("the dead node was called %d times", n)
					}
					close(three.woken)
					time.Sleep(3 * time.Second) // its ejection and one probe interval
					for range 30 {
						if err := tt.call(t.Context(), c); err != nil {
							t.Error(err)
						}
					}
					if n := three.back.Load(); n < 10 || n > 20 {
						t.Errorf("%d of 30 calls went to the node that hung and is back, want half", n)
					}
				})
			})
		}
	}
}

// A slow write says nothing about a node that answers a probe.
func TestASlowWriteDoesNotEjectItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network{}
		var asked [2]atomic.Int64
		for i, host := range []string{"first", "second"} {
			n.serve(t, host, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					asked[i].Add(1)
					if host == "first" {
						time.Sleep(300 * time.Millisecond)
					}
				}
				written(w, r)
			})
		}
		c := newClient(t, client.Config{Nodes: []string{"http://first", "http://second"}, Policy: "round_robin", SilenceTimeout: 200 * time.Millisecond, Dial: n.dial})
		for range 20 {
			if _, err := c.Put(t.Context(), "docs", "a", nil, client.PutOptions{}); err != nil {
				t.Error(err)
			}
		}
		if asked[0].Load() != 10 || asked[1].Load() != 10 {
			t.Errorf("%d and %d writes, want even turns", asked[0].Load(), asked[1].Load())
		}
	})
}

// A busy node's refusal is the final answer when the other nodes are known to
// be bad: a write would wait for the hung one to its end.
func TestOverloadIsNotPassedOnToANodeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		three := threeNodes(t)
		c := three.client(t, "round_robin")
		for range 12 {
			if _, err := c.Get(t.Context(), "docs", "a"); err != nil {
				t.Fatal(err)
			}
		}
		before := three.hung.Load()
		begun := time.Now()
		if _, err := c.Put(t.Context(), "docs", "overload", nil, client.PutOptions{}); !errors.Is(err, client.ErrOverloaded) {
			t.Errorf("got %v", err)
		}
		if three.hung.Load() != before || time.Since(begun) > 0 {
			t.Errorf("the hung node was asked, for %v", time.Since(begun))
		}
	})
}

// A node that says that it is not ready is left alone until it is. A node whose
// proxy does not know the probe's route counts as well.
func TestANodeThatIsNotReadyStaysOut(t *testing.T) {
	for status, back := range map[int]bool{200: true, 404: true, 401: true, 503: false, 502: false} {
		synctest.Test(t, func(t *testing.T) {
			var asked, probed atomic.Int64
			n := network{}
			n.serve(t, "draining", func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/readyz") {
					if r.URL.Path != "/base/readyz" {
						t.Errorf("probe of %s", r.URL.Path)
					}
					probed.Add(1)
					w.WriteHeader(status)
					return
				}
				asked.Add(1)
				problem(503, "draining")(w, r)
			})
			n.serve(t, "good", func(http.ResponseWriter, *http.Request) {})
			c := newClient(t, client.Config{Nodes: []string{"http://draining/base", "http://good"}, Policy: "round_robin", Dial: n.dial})
			get := func() {
				for range 10 {
					if _, err := c.Get(t.Context(), "docs", "a"); err != nil {
						t.Error(err)
					}
				}
			}
			get()
			before := asked.Load()
			time.Sleep(5 * time.Second)
			get()
			if before != 3 || probed.Load() == 0 || (asked.Load() > before) != back {
				t.Errorf("readiness %d: asked %d times, then %d more after %d probes", status, before, asked.Load()-before, probed.Load())
			}
		})
	}
}

// A node's report about the request, the origin or its load is no failure of
// the node. Its own leave is one, and so is a proxy's word that the node is
// gone.
func TestOnlyANodesOwnFailuresEjectIt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		blamed bool
	}{
		{"bad request", problem(400, "bad-request"), false},
		{"unauthorized", problem(401, "unauthorized"), false},
		{"forbidden", problem(403, "forbidden"), false},
		{"not found", problem(404, "not-found"), false},
		{"precondition", problem(412, "precondition-failed"), false},
		{"rate", problem(429, "rate-limited"), false},
		{"internal", problem(500, "internal"), false},
		{"a proxy's 404", say(404, "who?"), false},
		{"origin failed", problem(502, "origin-failed"), false},
		{"bad answer", problem(502, "origin-bad-answer"), false},
		{"overloaded", problem(503, "overloaded"), false},
		{"no endpoint", problem(503, "no-eligible-endpoint"), false},
		{"origin timeout", problem(504, "origin-timeout"), false},
		{"not cached", problem(504, "not-cached"), false},
		{"unconfirmed", problem(504, "write-unconfirmed"), false},
		{"draining", problem(503, "draining"), true},
		{"cut off", problem(503, "cut-off"), true},
		{"a proxy's 502", say(502, "bad gateway"), true},
		{"a proxy's 503", say(503, "gone"), true},
		{"a proxy's 504", say(504, "late"), true},
		{"broken", broken, true},
		{"truncated", truncated, true},
	} {
		synctest.Test(t, func(t *testing.T) { // so that no probe runs in between
			var asked atomic.Int64
			n := network{}
			n.serve(t, "odd", func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				tt.answer(w, r)
			})
			n.serve(t, "good", func(http.ResponseWriter, *http.Request) {})
			c := newClient(t, client.Config{Nodes: []string{"http://odd", "http://good"}, Policy: "round_robin", Dial: n.dial})
			for range 40 {
				_, _ = c.Get(t.Context(), "docs", "a") // every other one may fail
			}
			if got := asked.Load(); tt.blamed && got > 6 || !tt.blamed && got < 20 { // net/http may ask twice over a reused connection
				t.Errorf("%s: the node was asked by %d of 40 calls, blamed: %v", tt.name, got, tt.blamed)
			}
		})
	}
}

// An idle client asks no node.
func TestAnIdleClientMakesNoTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		n := network{}
		n.serve(t, "first", func(http.ResponseWriter, *http.Request) { asked.Add(1) })
		c := newClient(t, client.Config{Nodes: []string{"http://first"}, Dial: n.dial})
		if _, err := c.Get(t.Context(), "docs", "a"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if got := asked.Load(); got != 1 {
			t.Errorf("the node was asked %d times, want once", got)
		}
	})
}

// Callers that cancel do not get a node ejected.
func TestCancelledCallsEjectNoNode(t *testing.T) {
	release := make(chan struct{})
	answer := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return
		}
		say(200, "")(w, r)
	}
	defer close(release)
	a, b := newNode(t, "a", answer), newNode(t, "b", answer)
	c := newClient(t, client.Config{Policy: "round_robin"}, a, b)
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		before := a.asked.Load() + b.asked.Load()
		go func() {
			_, err := c.Get(ctx, "docs", "slow")
			done <- err
		}()
		eventually(t, "the call is at a node", func() bool { return a.asked.Load()+b.asked.Load() > before })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("call %d: got %v", i, err)
		}
	}
	wasA, wasB := a.asked.Load(), b.asked.Load()
	for range 20 {
		if _, err := c.Get(t.Context(), "docs", "fast"); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := a.asked.Load()-wasA, b.asked.Load()-wasB; a != 10 || b != 10 {
		t.Errorf("after a hundred cancelled calls the nodes were asked %d and %d times, want 10 each", a, b)
	}
}

// eventually waits for a condition, and names it when it never holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("30 s have passed, and not yet: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}
