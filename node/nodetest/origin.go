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

// Origin is the HTTP origin of a cluster. It counts its loads per key. A test
// can hold the loads or replace the answers. Its paths are /docs/KEY, escaped,
// and each answer is the key with its version.
type Origin struct {
	URL string

	mu     sync.Mutex // guards the fields below
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

// Body is the origin's usual value of a key.
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
	_, _ = fmt.Fprint(w, Body(key)) // some tests kill the node
}

// Loads is how often a key was loaded.
func (o *Origin) Loads(key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.loads[key]
}

// Total is the number of all requests.
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

// Answer replaces the origin's answers; nil restores them.
func (o *Origin) Answer(h http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = h
}

// Hold makes loads wait until the caller calls the returned function.
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
