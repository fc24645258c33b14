package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kring/node"
	"kring/node/nodetest"
)

// A purge removes the values with a tag on every node, whichever header named
// the tag. Other values stay.
func TestPurgeByTagOnEveryNode(t *testing.T) {
	c := nodetest.Start(t, 3)
	c.Origin.Answer(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "-1"):
			w.Header().Set("Cache-Tag", "other, red")
		case strings.Contains(r.URL.Path, "-2"):
			w.Header().Set("Surrogate-Key", "blue red")
			http.NotFound(w, r)
			return
		case strings.Contains(r.URL.Path, "-3"):
			w.Header().Set("Cache-Tag", "reddish")
		}
		_, _ = fmt.Fprint(w, r.URL.Path)
	})
	var keys []string
	for i := range 20 {
		for kind := range 4 {
			keys = append(keys, fmt.Sprintf("%d-%d", i, kind))
		}
	}
	for i, k := range keys {
		c.Get(c.Nodes[i%3], docs(k))
	}
	if r := c.Do(c.Nodes[1], http.MethodPost, "/v1/purge/docs", `{"tags":["red"]}`); r.Status != http.StatusNoContent {
		t.Fatalf("purge: %d %s", r.Status, r.Body)
	}
	for i, k := range keys {
		c.Get(c.Nodes[i%3], docs(k))
		want := 1
		if strings.HasSuffix(k, "-1") || strings.HasSuffix(k, "-2") {
			want = 2
		}
		if got := c.Origin.Loads(k); got != want {
			t.Errorf("%s: %d loads, want %d", k, got, want)
		}
	}
}

// Fifty clients at once, through all nodes, cost a failing origin at most two
// requests, and each client gets an answer.
func TestFiftyClientsOfAFailingOrigin(t *testing.T) {
	c := nodetest.Start(t, 3)
	c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	release := c.Origin.Hold()
	defer release()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if r := c.Get(c.Nodes[i%3], docs("k")); r.Status != http.StatusBadGateway {
				t.Errorf("%d %s", r.Status, r.Body)
			}
		})
	}
	nodetest.Eventually(t, "all have asked", func() bool { return gets(c) >= 50 })
	release()
	all.Wait()
	if got := c.Origin.Loads("k"); got > 2 {
		t.Errorf("%d requests", got)
	}
}

// A flood of missing keys: known keys are served as before, and the origin sees
// no more loads than it may.
func TestFloodOfMissingKeys(t *testing.T) {
	const budget = 4 << 20
	c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) {
		cfg.Groups[len(cfg.Groups)-1].NewKeyRate = 1
		cfg.Cache.MaxBytes = budget
	})
	hot := someKeys(50)
	for i, k := range hot {
		if r := c.Do(c.Nodes[i%3], http.MethodPut, docs(k), nodetest.Body(k)); r.Status != http.StatusCreated {
			t.Fatalf("put: %d %s", r.Status, r.Body)
		}
	}
	c.Origin.Answer(func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	var flood sync.WaitGroup
	var missing, refused atomic.Int64
	for w := range 8 {
		flood.Go(func() {
			for i := range 200 {
				switch r := c.Get(c.Nodes[i%3], docs(fmt.Sprintf("missing-%d-%d", w, i))); r.Status {
				case http.StatusNotFound:
					missing.Add(1)
				case http.StatusServiceUnavailable:
					refused.Add(1)
					if r.Header.Get("Retry-After") == "" {
						t.Error("refused without Retry-After")
					}
				default:
					t.Errorf("%d %s", r.Status, r.Body)
				}
			}
		})
	}
	flood.Wait()
	if refused.Load() == 0 || int(missing.Load()) != c.Origin.Total() {
		t.Errorf("%d refused, %d missing after %d loads", refused.Load(), missing.Load(), c.Origin.Total())
	}
	for i, k := range hot {
		wantValue(t, c.Get(c.Nodes[i%3], docs(k)), k)
		if got := c.Origin.Loads(k); got != 0 {
			t.Errorf("%s: %d loads", k, got)
		}
	}
	for _, n := range c.Nodes {
		if b := c.Books(n); b.Bytes > budget {
			t.Errorf("%s: %d bytes", n.ID, b.Bytes)
		}
	}
}
