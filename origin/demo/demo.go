// Package demo is an origin to try a cache on. On request it is slow, fails or
// changes its version, and it counts exactly how often it was asked. It answers
// every key with a document that names its key and version and proves both with
// a hash, or with the files of a directory.
//
//	GET /docs/KEY, GET /search?q=KEY   the document of KEY
//	GET /_/stats, GET /_/stats/KEY     the counts
//	GET /_/windows                     the counts over time, in tenths of a second
//	DELETE /_/stats                    starts the counts anew
//	GET /_/control, PUT /_/control     the behaviour; a PUT changes what it names
//
// A Server is safe for concurrent use.
package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Options are the settings of a Server.
type Options struct {
	// Dir is a directory whose files are served in place of documents.
	Dir string
	// Control is the behaviour at the start.
	Control Control
	Log     *slog.Logger
}

// Server is the demo origin, an http.Handler.
type Server struct {
	books books
	root  *os.Root // nil without Options.Dir
	log   *slog.Logger

	mu       sync.Mutex // guards the two fields below
	control  Control
	modified time.Time // when the documents last changed
}

// New checks the options and opens the directory. Close closes it.
func New(o Options) (*Server, error) {
	if err := o.Control.check(); err != nil {
		return nil, err
	}
	s := &Server{control: o.Control, modified: time.Now(), log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.Dir == "" {
		return s, nil
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory to serve: %w", err)
	}
	s.root = root
	return s, nil
}

// Close closes the directory.
func (s *Server) Close() error {
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

// Stats are the counts so far.
func (s *Server) Stats() Stats { return s.books.stats() }

// KeyStats are the counts of one key.
func (s *Server) KeyStats(key string) KeyStats { return s.books.key(key) }

// Windows are the counts of the last windows.
func (s *Server) Windows() Windows { return s.books.windows() }

// Control is the current behaviour.
func (s *Server) Control() Control {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.control
}

// SetControl changes the behaviour from the next request on.
func (s *Server) SetControl(c Control) error {
	if err := c.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Version != s.control.Version || c.Size != s.control.Size {
		s.modified = time.Now()
	}
	s.control = c
	return nil
}

// ServeHTTP answers one request. It does not use http.ServeMux, which would
// clean the path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	switch {
	case strings.HasPrefix(path, "/docs/"):
		key, err := url.PathUnescape(strings.TrimPrefix(path, "/docs/"))
		s.serveKey(w, r, key, err)
	case path == "/search":
		values, err := url.ParseQuery(r.URL.RawQuery)
		s.serveKey(w, r, values.Get("q"), err)
	case path == "/_/stats":
		s.serveStats(w, r)
	case path == "/_/windows":
		if allowed(w, r, http.MethodGet, http.MethodHead) {
			s.writeJSON(w, s.Windows())
		}
	case strings.HasPrefix(path, "/_/stats/"):
		s.serveKeyStats(w, r, strings.TrimPrefix(path, "/_/stats/"))
	case path == "/_/control":
		s.serveControl(w, r)
	default:
		http.Error(w, "not found: the documents are below /docs/", http.StatusNotFound)
	}
}

// serveKey counts each request for a key on arrival, however it ends.
func (s *Server) serveKey(w http.ResponseWriter, r *http.Request, key string, err error) {
	if !allowed(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	if err != nil || !utf8.ValidString(key) {
		http.Error(w, "bad request: the key is not well escaped UTF-8", http.StatusBadRequest)
		return
	}
	done := s.books.begin(key)
	status := 0 // the client left
	defer func() { done(status) }()

	s.mu.Lock()
	control, modified := s.control, s.modified
	s.mu.Unlock()
	if !control.wait(r.Context()) {
		return
	}
	if control.CacheControl != "" {
		w.Header().Set("Cache-Control", control.CacheControl)
	}
	switch {
	case control.fails():
		w.Header().Del("Cache-Control")
		status = http.StatusInternalServerError
		http.Error(w, "the demo origin was told to fail", status)
	case control.Missing.has(key):
		status = http.StatusNotFound
		http.Error(w, "not found", status)
	case s.root != nil:
		status = s.serveFile(w, r, key)
	default:
		status = serveDocument(w, r, newDocument(key, string(control.Version), control.Size), modified)
	}
}

func (s *Server) serveStats(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r, http.MethodGet, http.MethodHead, http.MethodDelete) {
		return
	}
	if r.Method == http.MethodDelete {
		s.books.reset()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.writeJSON(w, s.books.stats())
}

func (s *Server) serveKeyStats(w http.ResponseWriter, r *http.Request, escaped string) {
	if !allowed(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	key, err := url.PathUnescape(escaped)
	if err != nil {
		http.Error(w, "bad request: the key is not well escaped", http.StatusBadRequest)
		return
	}
	s.writeJSON(w, s.books.key(key))
}

func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r, http.MethodGet, http.MethodHead, http.MethodPut) {
		return
	}
	if r.Method == http.MethodPut {
		if err := s.readControl(http.MaxBytesReader(w, r.Body, 64<<10)); err != nil {
			http.Error(w, "bad request: "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	s.writeJSON(w, s.Control())
}

// readControl decodes over the current values, so that the body changes only
// what it names.
func (s *Server) readControl(body io.Reader) error {
	c := s.Control()
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return fmt.Errorf("read the control: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read the control: more than one value")
	}
	return s.SetControl(c)
}

func (s *Server) writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		s.log.Error("demo origin cannot encode its answer", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	if _, err := w.Write(append(text, '\n')); err != nil {
		s.log.Debug("client left before its answer", "error", err)
	}
}

func allowed(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	for _, m := range methods {
		if r.Method == m {
			return true
		}
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	return false
}
