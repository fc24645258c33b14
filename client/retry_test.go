package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kring/client"
)

// The ways in which a node can fail, and the calls that another node then
// answers.
func TestRetries(t *testing.T) {
	calls := map[string]func(ctx context.Context, c *client.Client) error{
		"get": func(ctx context.Context, c *client.Client) error {
			_, err := c.Get(ctx, "docs", "a")
			return err
		},
		"put": func(ctx context.Context, c *client.Client) error {
			_, err := c.Put(ctx, "docs", "a", []byte("x"), client.PutOptions{})
			return err
		},
		"put if": func(ctx context.Context, c *client.Client) error {
			_, err := c.Put(ctx, "docs", "a", []byte("x"), client.PutOptions{IfAbsent: true})
			return err
		},
		"delete": func(ctx context.Context, c *client.Client) error {
			_, err := c.Delete(ctx, "docs", "a")
			return err
		},
	}
	good := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			say(200, "good")(w, r)
			return
		}
		say(204, "")(w, r)
	}
	for _, row := range []struct {
		name    string
		failing http.HandlerFunc // nil: nothing listens
		again   string           // the calls that are repeated
	}{
		{"refused", nil, "get,put,put if,delete"},
		{"draining", problem(503, "draining"), "get,put,put if,delete"},
		{"cut off", problem(503, "cut-off"), "get,put,put if,delete"},
		{"overloaded", problem(503, "overloaded"), "get,put,put if,delete"},
		{"broken", broken, "get,put,delete"},
		{"truncated", truncated, "get,put,delete"},
		{"hung", hung, "get"},
		{"a proxy's 502", say(502, "bad gateway"), "get"},
		{"a proxy's 503", say(503, "gone"), "get,put,delete"},
		{"a proxy's 504", say(504, "late"), "get"},
		{"origin failed", problem(502, "origin-failed"), ""},
		{"no endpoint", problem(503, "no-eligible-endpoint"), ""},
		{"origin timeout", problem(504, "origin-timeout"), ""},
		{"unconfirmed", problem(504, "write-unconfirmed"), ""},
		{"internal", problem(500, "internal"), ""},
		{"bad key", problem(400, "bad-key"), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			for name, call := range calls {
				second := newNode(t, "good", good)
				cfg := client.Config{Policy: "round_robin"}
				switch {
				case row.name == "hung" && name == "get":
					cfg.PerTryTimeout = 50 * time.Millisecond
				case row.name == "hung":
					cfg.Timeout = 100 * time.Millisecond // a write waits that long
				}
				if row.failing == nil {
					cfg.Nodes = []string{refusing(t)}
				} else {
					cfg.Nodes = []string{newNode(t, "bad", row.failing).URL}
				}
				c := newClient(t, cfg, second)
				err := call(t.Context(), c)
				want := slices.Contains(strings.Split(row.again, ","), name)
				if want != (err == nil) || want != (second.asked.Load() == 1) || want != (c.Counters().Retries == 1) {
					t.Errorf("%s: error %v, the other node was asked %d times, want again: %v", name, err, second.asked.Load(), want)
				}
			}
		})
	}
}

func TestEveryNodeIsAskedOnce(t *testing.T) {
	for range 20 { // so that each node has its turn
		good := newNode(t, "good", say(200, "good"))
		c := newClient(t, client.Config{Nodes: []string{refusing(t), refusing(t), refusing(t)}}, good)
		if _, err := c.Get(t.Context(), "docs", "a"); err != nil {
			t.Fatalf("one of four nodes is up: %v", err)
		}
	}
}

func TestNoNodeAnswers(t *testing.T) {
	a, b := newNode(t, "a", broken), newNode(t, "b", broken)
	c := newClient(t, client.Config{}, a, b)
	_, err := c.Get(t.Context(), "docs", "a")
	if !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if a.asked.Load() == 0 || b.asked.Load() == 0 {
		t.Errorf("asked %d and %d times", a.asked.Load(), b.asked.Load())
	}
}

func TestOverloadIsPassedOnOnce(t *testing.T) {
	var nodes []*fakeNode
	for range 4 {
		nodes = append(nodes, newNode(t, "n", problem(503, "overloaded")))
	}
	c := newClient(t, client.Config{}, nodes...)
	if _, err := c.Get(t.Context(), "docs", "a"); !errors.Is(err, client.ErrOverloaded) {
		t.Errorf("got %v", err)
	}
	var sum int64
	for _, n := range nodes {
		sum += n.asked.Load()
	}
	if sum != 2 {
		t.Errorf("%d nodes were asked, want 2", sum)
	}
}

func TestMaxTries(t *testing.T) {
	a, b, d := newNode(t, "a", broken), newNode(t, "b", broken), newNode(t, "d", broken)
	c := newClient(t, client.Config{MaxTries: 2}, a, b, d)
	if _, err := c.Get(t.Context(), "docs", "k"); err == nil {
		t.Fatal("no error")
	}
	if got := c.Counters(); got.Calls != 1 || got.Retries != 1 {
		t.Errorf("got %+v, want 1 call and 1 retry", got)
	}
}

// A node that fails again and again is left alone: else every third call would
// pay for a try.
func TestFailingNodeIsLeftAlone(t *testing.T) {
	bad, good := newNode(t, "bad", broken), newNode(t, "good", say(200, ""))
	c := newClient(t, client.Config{}, bad, good)
	for range 100 {
		if _, err := c.Get(t.Context(), "docs", "a"); err != nil {
			t.Fatal(err)
		}
	}
	// Three failures in a row eject it; after each second of ejection one more
	// try may fail. net/http itself may ask twice over a reused connection.
	if n := bad.asked.Load(); n > 20 {
		t.Errorf("the failing node was asked %d times of 100", n)
	}
}

// least_in_flight works: a node that is busy with one call is not asked while
// another node is idle.
func TestBusyNodeIsAskedLess(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	answer := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			entered <- struct{}{}
			<-release
		}
		say(200, "")(w, r)
	}
	a, b := newNode(t, "a", answer), newNode(t, "b", answer)
	c := newClient(t, client.Config{Policy: "least_in_flight", SilenceTimeout: time.Minute, PerTryTimeout: time.Minute}, a, b)
	done := make(chan error, 1)
	go func() {
		_, err := c.Get(t.Context(), "docs", "slow")
		done <- err
	}()
	<-entered
	for range 20 {
		if _, err := c.Get(t.Context(), "docs", "fast"); err != nil {
			t.Error(err)
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if few, many := min(a.asked.Load(), b.asked.Load()), max(a.asked.Load(), b.asked.Load()); few != 1 || many != 20 {
		t.Errorf("asked %d and %d times, want the busy one once", few, many)
	}
}

// Errors that only the caller is to blame for do not eject a node.
func TestTheCallersFaultsEjectNoNode(t *testing.T) {
	long, other := newNode(t, "long", nil), newNode(t, "other", say(200, ""))
	long.set(say(200, "too long"))
	c := newClient(t, client.Config{Policy: "round_robin", MaxAnswerBytes: 7}, long, other)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for range 20 {
		if _, err := c.Get(over, "docs", "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, err := c.Get(late, "docs", "a"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		_, _ = c.Get(t.Context(), "docs", "a") // every other one is too long
	}
	if long.asked.Load() != 10 || other.asked.Load() != 10 {
		t.Errorf("asked %d and %d times, want 10 each", long.asked.Load(), other.asked.Load())
	}
}

// A captive portal, or another service at a node's address, may answer 200 to
// anything. Its body is not a value, and a write is not done.
func TestAnswersOfOtherServicesAreRefused(t *testing.T) {
	for status, body := range map[int]string{200: "<html>", 201: "", 202: "", 204: "", 206: "part", 304: "", 307: ""} {
		stranger := newNode(t, "", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del("Kring-Node")
			w.Header().Set("Location", "http://127.0.0.1:1/")
			say(status, body)(w, r)
		})
		good := newNode(t, "good", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				say(200, "good")(w, r)
				return
			}
			say(204, "")(w, r)
		})
		calls := map[string]func(c *client.Client) error{
			"get": func(c *client.Client) error {
				v, err := c.GetIfNoneMatch(t.Context(), "docs", "a", `"x"`)
				if err == nil && string(v.Body) != "good" {
					t.Errorf("%d: got %q", status, v.Body)
				}
				return err
			},
			"put": func(c *client.Client) error {
				_, err := c.Put(t.Context(), "docs", "a", []byte("x"), client.PutOptions{})
				return err
			},
			"delete": func(c *client.Client) error {
				_, err := c.Delete(t.Context(), "docs", "a")
				return err
			},
			"purge": func(c *client.Client) error { return c.Purge(t.Context(), "docs") },
		}
		for name, call := range calls {
			if err := call(newClient(t, client.Config{}, stranger)); !errors.Is(err, client.ErrUnavailable) {
				t.Errorf("%d: %s: got %v, want ErrUnavailable", status, name, err)
			}
			if err := call(newClient(t, client.Config{Policy: "round_robin"}, stranger, good)); err != nil {
				t.Errorf("%d: %s, with a node beside: %v", status, name, err)
			}
		}
		_, err := newClient(t, client.Config{Policy: "round_robin"}, stranger, good).Put(t.Context(), "docs", "a", nil, client.PutOptions{IfAbsent: true})
		if !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("%d: a conditional put: got %v, want ErrUnavailable", status, err)
		}
	}
}

// All entry nodes have the same weight, so each policy spreads gets evenly.
func TestPolicyChoosesTheEntryNode(t *testing.T) {
	for _, policy := range []string{"", "round_robin", "weighted", "smooth_weighted", "least_assigned", "least_in_flight"} {
		a, b, d := newNode(t, "a", say(200, "")), newNode(t, "b", say(200, "")), newNode(t, "d", say(200, ""))
		c := newClient(t, client.Config{Policy: policy}, a, b, d)
		for range 30 {
			if _, err := c.Get(t.Context(), "docs", "k"); err != nil {
				t.Fatal(err)
			}
		}
		if a.asked.Load() != 10 || b.asked.Load() != 10 || d.asked.Load() != 10 {
			t.Errorf("%q: asked %d, %d, %d times, want 10 each", policy, a.asked.Load(), b.asked.Load(), d.asked.Load())
		}
	}
}

// While one node is slow, least_in_flight asks the other.
func TestLeastInFlightAvoidsASlowNode(t *testing.T) {
	release := make(chan struct{})
	slow := newNode(t, "slow", func(w http.ResponseWriter, r *http.Request) {
		<-release
		say(200, "")(w, r)
	})
	fast := newNode(t, "fast", say(200, ""))
	c := newClient(t, client.Config{
		Policy: "least_in_flight", Timeout: time.Minute, PerTryTimeout: time.Minute, SilenceTimeout: time.Minute,
	}, slow, fast)
	first := make(chan error)
	go func() {
		_, err := c.Get(t.Context(), "docs", "k")
		first <- err
	}()
	for slow.asked.Load() == 0 {
		<-time.After(time.Millisecond)
	}
	for range 10 {
		if _, err := c.Get(t.Context(), "docs", "k"); err != nil {
			t.Error(err)
		}
	}
	if s, f := slow.asked.Load(), fast.asked.Load(); s != 1 || f != 10 {
		t.Errorf("the slow node was asked %d times, the fast one %d, want 1 and 10", s, f)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// Clients that start together begin at different nodes.
func TestClientsBeginAtDifferentNodes(t *testing.T) {
	for _, policy := range []string{"", "round_robin", "weighted", "smooth_weighted", "least_in_flight"} {
		for turn := range 6 {
			nodes := []*fakeNode{newNode(t, "a", say(200, "")), newNode(t, "b", say(200, "")), newNode(t, "c", say(200, ""))}
			restore := client.BeginAt(turn)
			c := newClient(t, client.Config{Policy: policy}, nodes...)
			restore()
			if _, err := c.Get(t.Context(), "docs", "k"); err != nil {
				t.Fatal(err)
			}
			if nodes[turn%3].asked.Load() != 1 {
				t.Errorf("%q: turn %d did not begin at node %d", policy, turn, turn%3+1)
			}
		}
	}
}
