package loadgen_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kring/loadgen"
)

// bookNode answers every get as a hit, and has books that a test can falsify.
type bookNode struct {
	mu    sync.Mutex // guards books
	books map[string]int64
	cook  func(books map[string]int64)
	// members is the answer to GET /v1/cluster; "" means that the route is
	// missing.
	members string
}

func (n *bookNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.Header().Set("Kring-Node", "fake")
	switch {
	case r.URL.Path == "/v1/stats":
		body, err := json.Marshal(n.books)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body)
	case r.URL.Path == "/v1/cluster" && n.members != "":
		_, _ = fmt.Fprint(w, n.members)
	case strings.HasPrefix(r.URL.Path, "/v1/cache/"):
		n.books["gets"]++
		n.books["hits"]++
		if n.cook != nil {
			n.cook(n.books)
		}
		w.Header().Set("Cache-Status", "fake; hit; ttl=1")
		_, _ = fmt.Fprint(w, "value")
	case r.URL.Path == "/_/stats":
		_, _ = fmt.Fprintf(w, `{"loads":%d,"in_flight":0}`, n.books["origin"])
	default:
		http.NotFound(w, r)
	}
}

func TestBooks(t *testing.T) {
	for _, tt := range []struct {
		name       string
		cook       func(books map[string]int64)
		members    string
		wrong      string
		notChecked string
		silent     string
	}{
		{name: "right"},
		{name: "a get too many", cook: func(b map[string]int64) { b["gets"]++ }, wrong: "fake: 40 gets, but 20 of them"},
		{name: "served", cook: func(b map[string]int64) { b["served"], b["served_hits"], b["peer"], b["hits"] = 5, 4, 5, 15 }, wrong: "5 calls of other nodes served, but 4"},
		{name: "unknown members", cook: func(b map[string]int64) { b["peer"]++; b["hits"]--; b["origin"]++ }, notChecked: "it does not say who its members are"},
		{name: "peer", members: `{"members":[{"id":"fake","url":"SELF"}]}`, cook: func(b map[string]int64) { b["peer"]++; b["hits"]-- }, wrong: "20 gets went to other nodes, but 0 were served and 0 abandoned"},
		{name: "abandoned", cook: func(b map[string]int64) { b["peer"]++; b["hits"]--; b["abandoned"]++ }},
		{name: "loads", cook: func(b map[string]int64) { b["loads"]++; b["hits"]-- }, wrong: "it saw 0 loads, the nodes count 20"},
		{name: "refreshes", cook: func(b map[string]int64) { b["refreshes"]++; b["origin"]++ }},
		{name: "secret loads", cook: func(b map[string]int64) { b["origin"]++ }, wrong: "it saw 20 loads, the nodes count 0"},
		{name: "origin reset", cook: func(b map[string]int64) { b["origin"] = -1 }, notChecked: "the origin: it was restarted or reset"},
		{name: "an entry node at a URL with a slash", members: `{"members":[{"id":"fake","url":"SELF/"}]}`},
		{name: "a dead member", members: `{"members":[{"id":"fake","url":"SELF"},{"id":"dead","url":"http://127.0.0.1:1"}]}`, notChecked: "the cluster: dead does not show its books", silent: "dead"},
		{name: "a member that the others do not hear", members: `{"members":[{"id":"fake","url":"SELF","state":"down"}]}`, silent: "fake"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // the runs with wrong books wait for them to balance
			n := &bookNode{books: map[string]int64{"gets": 0, "hits": 0}, cook: tt.cook}
			s := httptest.NewServer(n)
			defer s.Close()
			n.members = strings.ReplaceAll(tt.members, "SELF", s.URL)
			cfg := loadgen.DefaultConfig()
			cfg.Nodes, cfg.Group, cfg.Origin, cfg.Count, cfg.Concurrency = []string{s.URL}, "docs", s.URL, 20, 4
			r := run(t, cfg)
			if tt.wrong == "" && (r.Err() != nil || !r.Books.Balanced) {
				t.Errorf("got %v, books %+v", r.Err(), r.Books)
			}
			wrong, skipped := strings.Join(r.Books.Wrong, "; "), strings.Join(r.Books.NotChecked, "; ")
			wrong = strings.ReplaceAll(wrong, s.URL, "fake")
			if tt.wrong != "" && (!errors.Is(r.Err(), loadgen.ErrWrong) || !strings.Contains(wrong, tt.wrong)) {
				t.Errorf("got %v, wrong %q; want %q", r.Err(), wrong, tt.wrong)
			}
			if silent := strings.Join(r.Books.Silent, "; "); silent != tt.silent {
				t.Errorf("said not to answer: %q, want %q", silent, tt.silent)
			}
			if !strings.Contains(skipped, tt.notChecked) || tt.notChecked == "" && skipped != "" {
				t.Errorf("not checked %q, want %q", skipped, tt.notChecked)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	for want, edit := range map[string]func(*loadgen.Config){
		"--nodes":            func(c *loadgen.Config) { c.Nodes = nil },
		"has no host":        func(c *loadgen.Config) { c.Nodes = []string{"http://"} },
		"--group":            func(c *loadgen.Config) { c.Group = "" },
		`"uniform:none"`:     func(c *loadgen.Config) { c.Keys = "uniform:none" },
		"no such file":       func(c *loadgen.Config) { c.Keys = "/none.keys" },
		"--concurrency: 0":   func(c *loadgen.Config) { c.Concurrency = 0 },
		"--rate: -1":         func(c *loadgen.Config) { c.Rate = -1 },
		"--duration: -1ns":   func(c *loadgen.Config) { c.Duration = -1 },
		"--count: -1":        func(c *loadgen.Config) { c.Count = -1 },
		"at most 100%":       func(c *loadgen.Config) { c.Write, c.Delete = 0.7, 0.4 },
		"--value-size: -1":   func(c *loadgen.Config) { c.ValueSize = -1 },
		"--timeout: 0s":      func(c *loadgen.Config) { c.Timeout = 0 },
		"dice":               func(c *loadgen.Config) { c.Policy = "dice" },
		`--origin: "nobody"`: func(c *loadgen.Config) { c.Origin = "nobody" },
	} {
		cfg := loadgen.DefaultConfig()
		cfg.Nodes, cfg.Group = []string{"http://127.0.0.1:1"}, "docs"
		edit(&cfg)
		if _, err := loadgen.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
