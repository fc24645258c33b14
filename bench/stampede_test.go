//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// All clients ask once each, and their answers are counted by kind.
func TestAskAtOnce(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		if r.URL.Path != "/a/b" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Cache-Status", "k; hit")
		if n <= 3 {
			w.Header().Set("Cache-Status", "k; fwd=miss")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprint(w, strings.Repeat("x", 10_000))
	}))
	defer s.Close()
	c, err := askAtOnce(t.Context(), s.Listener.Addr().String(), "/a/b", 40)
	if err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 40 || c.statuses[200] != 37 || c.statuses[503] != 3 || c.waited != 3 || len(c.latencies) != 40 {
		t.Errorf("asked %d, %+v", asked.Load(), c)
	}
	if _, err := askAtOnce(t.Context(), "127.0.0.1:1", "/", 2); err == nil {
		t.Error("no server is there, and that is no error")
	}
}

func TestPercentiles(t *testing.T) {
	c := &crowd{}
	if c.percentile(50) != 0 {
		t.Error("of nothing")
	}
	for i := range 200 {
		c.latencies = append(c.latencies, float64(i+1))
	}
	if c.percentile(50) != 100 || c.percentile(99) != 198 {
		t.Errorf("%v, %v", c.percentile(50), c.percentile(99))
	}
}

func TestStampedeOrigin(t *testing.T) {
	o, err := newStampedeOrigin()
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *http.Response {
		resp, err := http.Get("http://" + o.addr + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		return resp
	}
	for i, want := range []string{"max-age=1, stale-while-revalidate=60", "max-age=3600"} {
		if r := get("/v1/cache/docs/expired/k"); r.Header.Get("Cache-Control") != want || o.of("expired", "k") != i+1 {
			t.Errorf("%v, %d fetches", r.Header, o.of("expired", "k"))
		}
	}
	if r := get("/failing/k"); r.StatusCode != 503 || o.of("failing", "other") != 0 {
		t.Errorf("%d", r.StatusCode)
	}
	if r := get("/none/k"); r.StatusCode != 404 {
		t.Errorf("%d", r.StatusCode)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

func TestStampedesAreJudgedByCounts(t *testing.T) {
	b := &bench{}
	row := *stampedeRow("cold")
	results := map[string]*outcome{
		nginx:   {fetches: []int{1}, p50: []float64{500}, p99: []float64{510}, statuses: map[int]int{200: 200}},
		varnish: {fetches: []int{1, 1}, p50: []float64{60, 62}, p99: []float64{70, 70}, statuses: map[int]int{200: 400}},
		kring:   {fetches: []int{1, 2}, p50: []float64{52, 52}, p99: []float64{55, 57}, statuses: map[int]int{200: 399, 504: 1}},
	}
	b.judgeStampede(row, results)
	if g := b.report.Goals; len(g) != 2 || g[0].Met || !strings.Contains(g[0].Bound, "[1 2]") || !g[1].Met {
		t.Errorf("%+v", g)
	}
	all := table{}
	for _, s := range stampedes() {
		all[s.name] = results
	}
	var out bytes.Buffer
	if err := all.write(&out, []string{nginx, varnish, kring}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "2 fetches, p50 52 ms, p99 56 ms [200:399 504:1]") {
		t.Error(out.String())
	}
}
