package node_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"kring/balance"
	"kring/node"
	"kring/node/nodetest"
)

// An origin that withdraws a value is believed at once, through every node.
// Only when the origin fails is the old value better than nothing (RFC 5861
// §4).
func TestAnOldValueIsServedOnlyIfTheOriginFails(t *testing.T) {
	c := nodetest.Start(t, 3)
	for i, tt := range []struct {
		status int
		old    bool
	}{
		{500, true},
		{502, true},
		{503, true},
		{504, true},
		{599, true},
		{400, false},
		{401, false},
		{402, false},
		{403, false},
		{405, false},
		{406, false},
		{409, false},
		{451, false},
		{499, false},
		{404, false},
		{410, false},
		{204, false},
		{301, false},
		{302, false},
		{307, false},
		{408, false},
		{421, false},
		{429, false},
		{501, false},
		{505, false},
	} {
		for j, header := range []string{"max-age=0, stale-if-error=600", "max-age=0, stale-while-revalidate=600, stale-if-error=600"} {
			background := j == 1
			if background && (tt.status == 408 || tt.status == 421 || tt.status == 429 || tt.status == 501 || tt.status == 505) {
				continue // such an answer keeps the value, and a background refresh changes nothing
			}
			key := c.KeyOf(c.Nodes[i%3], 2*i+j)
			c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", header)
				_, _ = fmt.Fprint(w, "old")
			})
			for _, n := range c.Nodes {
				if r := c.Get(n, docs(key)); r.Status != http.StatusOK {
					t.Fatalf("%d %s", r.Status, r.Body)
				}
			}
			c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tt.status) })
			if background && !tt.old {
				nodetest.Eventually(t, fmt.Sprintf("a refresh that is answered with %d ends the value", tt.status), func() bool {
					return c.Get(c.Nodes[0], docs(key)).Status != http.StatusOK
				})
			}
			for _, n := range c.Nodes {
				r := c.Get(n, docs(key))
				switch {
				case (r.Status == http.StatusOK && r.Body == "old") != tt.old:
					t.Errorf("%d, %s: through %s %d %s", tt.status, header, n.ID, r.Status, r.Body)
				case tt.status == 404 || tt.status == 410:
					if r.Status != http.StatusNotFound {
						t.Errorf("%d: through %s %d %s", tt.status, n.ID, r.Status, r.Body)
					}
				case !tt.old && (r.Status != http.StatusBadGateway || !strings.Contains(r.Body, `"/problems/origin-failed"`) ||
					!strings.Contains(r.Body, "endpoint a answered "+strconv.Itoa(tt.status))):
					t.Errorf("%d: through %s %d %s", tt.status, n.ID, r.Status, r.Body)
				}
			}
		}
	}
}

// An endpoint that is overloaded or the wrong one is not the only one, so
// another is tried. If no other is better, clients of each node learn how long
// to wait, and the origin gets no requests meanwhile.
func TestAnEndpointsOwnRefusalIsTriedElsewhereAndRetryAfterPassedOn(t *testing.T) {
	var asked, status atomic.Int64
	c := nodetest.Start(t, 2, func(_ int, cfg *node.Config) {
		docs := &cfg.Pools[0]
		busy := balance.EndpointConfig{Name: "b", URL: docs.Endpoints[0].URL + "/busy", Weight: 1}
		only := *docs
		only.Name, only.Endpoints = "busy", []balance.EndpointConfig{busy}
		docs.Policy, docs.Endpoints = "round_robin", append([]balance.EndpointConfig{busy}, docs.Endpoints...)
		docs.Origin.RetryBudget = 1
		cfg.Pools = append(cfg.Pools, only)
		alone := cfg.Groups[len(cfg.Groups)-1]
		alone.Name, alone.Origin.Pool = "alone", "busy"
		cfg.Groups = append(cfg.Groups, alone)
	})
	c.Origin.Answer(func(w http.ResponseWriter, r *http.Request) {
		if key, ok := strings.CutPrefix(r.URL.Path, "/docs/"); ok {
			_, _ = fmt.Fprint(w, nodetest.Body(key))
			return
		}
		asked.Add(1)
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(int(status.Load()))
	})
	for i, s := range []int{429, 421, 408} {
		status.Store(int64(s))
		key := c.KeyOf(c.Nodes[0], i)
		for asked.Store(0); asked.Load() == 0; key += "x" { // until it is b's turn
			wantValue(t, c.Get(c.Nodes[1], docs(key)), key)
		}

		asked.Store(0)
		for _, n := range append(c.Nodes, c.Nodes...) {
			r := c.Get(n, pathOf("alone", key))
			wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
			if r.Status != http.StatusBadGateway || err != nil || wait < 1 || wait > 120 || !strings.Contains(r.Body, "endpoint b answered "+strconv.Itoa(s)) {
				t.Errorf("%d: through %s %d, Retry-After %q, %s", s, n.ID, r.Status, r.Header.Get("Retry-After"), r.Body)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%d: the origin was asked %d times", s, n)
		}
	}
}
