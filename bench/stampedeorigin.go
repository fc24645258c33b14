//go:build linux

package main

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// stampedeOrigin is the origin of the stampedes. It answers /…/ROW/KEY by the
// settings of the row, and counts the fetches.
type stampedeOrigin struct {
	server *http.Server
	addr   string
	done   chan error

	mu      sync.Mutex // guards fetches
	fetches map[string]int
}

func newStampedeOrigin() (*stampedeOrigin, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &stampedeOrigin{addr: l.Addr().String(), done: make(chan error, 1), fetches: map[string]int{}}
	o.server = &http.Server{Handler: o}
	go func() { o.done <- o.server.Serve(l) }()
	return o, nil
}

func (o *stampedeOrigin) close() error {
	err := o.server.Close()
	if serveErr := <-o.done; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// of is how often a key was fetched.
func (o *stampedeOrigin) of(row, key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fetches[row+"/"+key]
}

func (o *stampedeOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(segments) < 2 {
		return // a readiness check
	}
	name, key := segments[len(segments)-2], segments[len(segments)-1]
	o.mu.Lock()
	o.fetches[name+"/"+key]++
	n := o.fetches[name+"/"+key]
	o.mu.Unlock()
	row := stampedeRow(name)
	if row == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain")
	if control := row.control(n); control != "" {
		h.Set("Cache-Control", control)
	}
	select {
	case <-time.After(row.latency):
	case <-r.Context().Done():
		return
	}
	w.WriteHeader(row.status)
	_, _ = w.Write([]byte("value of " + key)) // the client may have left
}
