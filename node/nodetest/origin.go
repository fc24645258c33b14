package nodetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Origin is the HTTP origin of a cluster: it counts its loads per key, and
// can be told to hold them, or to answer something else. Its paths are
// /docs/KEY, escaped, and its answers the key itself with its version.
type Origin struct {
	URL string

	mu     sync.Mutex // guards what follows
	loads  map[string]int
	total  int
	answer http.HandlerFunc
	gate   chan struct{}
}

func newOrigin(t testing.TB) *Origin {
	o := &Origin{loads: map[string]int{}}
	s := httptest.NewServer(o)
	t.Cleanup(s.Close)
	o.URL = s.URL
	return o
}

// Body is what the origin says of a key, unless it was told otherwise.
func Body(key string) string { return "value of " + key }

// ServeHTTP counts the load, waits for the gate, and answers.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/docs/"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	o.loads[key]++
	o.total++
	gate, answer := o.gate, o.answer
	o.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	if answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = fmt.Fprint(w, Body(key)) // a node that went away is part of the tests
}

// Loads is how often a key was asked for.
func (o *Origin) Loads(key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.loads[key]
}

// Total is how many requests came in all.
func (o *Origin) Total() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// Counts is a copy of the loads of every key.
func (o *Origin) Counts() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := make(map[string]int, len(o.loads))
	for k, n := range o.loads {
		m[k] = n
	}
	return m
}

// Answer replaces what the origin says; nil restores it.
func (o *Origin) Answer(h http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = h
}

// Hold makes loads wait until the returned function is called.
func (o *Origin) Hold() (release func()) {
	gate := make(chan struct{})
	o.mu.Lock()
	o.gate = gate
	o.mu.Unlock()
	return sync.OnceFunc(func() {
		o.mu.Lock()
		o.gate = nil
		o.mu.Unlock()
		close(gate)
	})
}
