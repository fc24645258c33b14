package origin_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"kring/cache"
	"kring/origin"
)

// echoKey answers with the key as a server sees it: after a prefix of the
// decoded path, or from the query.
func echoKey(prefix string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := strings.CutPrefix(r.URL.Path, prefix)
		if strings.Contains(prefix, "?") {
			q, err := url.ParseQuery(r.URL.RawQuery)
			key, ok = q.Get("q"), err == nil && len(q) == 1
		}
		if !ok {
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Write([]byte(key))
	}
}

// The keys of faults.md, and others that have a second meaning in URLs.
var oddKeys = []string{
	"a", "a/b", "//a", "/", "//", "a/", "a//b", "a b", "a+b", "a%2Fb", "a%20b", "%", "%%", "%zz", "#", "?", "a?b=c&d=e;f#g",
	"&", "=", "a=b&q=c", ";", ":", "@", "http://example.org/a?b", "[::1]", "{key}", "{+key}", "\\", "^`|<>\"", "emoji 😀 é", "...", ".a", "a.",
	"a..b", "~", "!$'()*,", strings.Repeat("k", 1024), "\u00a0", "%2e%2e", "ümläut/ß",
}

func TestKeysArriveAsTheyAre(t *testing.T) {
	for path, prefix := range map[string]string{
		"/docs/{key}": "/docs/", "/docs/{+key}": "/docs/", "/{+key}": "/", "/{key}": "/",
		"/search?q={key}": "?", "/search?q={+key}": "?", "/a%20b/{key}": "/a b/",
	} {
		t.Run(path, func(t *testing.T) {
			s := start(t, path, []string{serve(t, echoKey(prefix)).URL})
			for _, key := range oddKeys {
				s.load(t, key, nil).mustBe(t, key)
			}
		})
	}
}

func TestEscaping(t *testing.T) {
	for _, tt := range []struct{ base, path, key, want string }{
		{"", "/d/{key}", "a/b c+%😀~", "/d/a%2Fb%20c%2B%25%F0%9F%98%80~"},
		{"", "/d/{+key}", "/a/b c+%?#", "/d//a/b%20c+%25%3F%23"},
		{"", "/s?x=1&q={key}&y=2", "a&b=c", "/s?x=1&q=a%26b%3Dc&y=2"},
		{"", "/s?q={+key}", "a/b&c=d+e", "/s?q=a/b%26c%3Dd%2Be"},
		{"/base/", "/d/{key}.json?v=1", "k", "/base/d/k.json?v=1"},
		{"/b%20c", "/{key}", "k", "/b%20c/k"},
	} {
		var got string
		srv := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
		start(t, tt.path, []string{srv.URL + tt.base}).load(t, tt.key, nil).mustBe(t, "")
		if got != tt.want {
			t.Errorf("%s%s with %q asks for %s, want %s", tt.base, tt.path, tt.key, got, tt.want)
		}
	}
}

func TestDotSegmentsAreRefused(t *testing.T) {
	srv := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, tt := range []struct {
		path, key string
		bad       bool
	}{
		{"/d/{key}", ".", true},
		{"/d/{key}", "..", true},
		{"/d/{key}", "../x", true},
		{"/d/{key}", "a/../b", true},
		{"/d/{key}", "a/.", true},
		{"/d/{+key}", "a/./b", true},
		{"/d/{+key}", "/..", true},
		{"/d/{+key}", "a/..;/b", true}, // as Tomcat and Jetty see it
		{"/d/{+key}", "..;x=1/b", true},
		{"/d/{+key}", ".;", true},
		{"/d/{+key}", "a;../b", false},
		{"/d/{key}", "..;x", false}, // sent as ..%3Bx, so not a parameter
		{"/d/.{+key}", ".;x", true},
		{"/d/.{key}", ".", true},
		{"/d/.{key}", "", true},
		{"/d/{key}.", ".", true},
		{"/d/{key}.json", "..", false},
		{"/d/x{key}", "..", false},
		{"/d/{key}", "...", false},
		{"/d/{key}", "..a", false},
		{"/d/{key}", "%2e%2e", false}, // sent as %252e%252e, which decodes to the key
		{"/d?q={key}", "..", false},
		{"/d?q={key}", "a/../b", false},
		{"/d/{key}?x=/../", "a", false},
	} {
		s := start(t, tt.path, []string{srv.URL})
		err := s.group.CheckKey(tt.key)
		if errors.Is(err, cache.ErrBadKey) != tt.bad || (err != nil) != tt.bad {
			t.Errorf("%s with %q: %v, want refused: %v", tt.path, tt.key, err, tt.bad)
		}
		if tt.bad {
			s.load(t, tt.key, nil).mustFail(t, cache.ErrBadKey)
		}
	}
}

func TestBadTemplates(t *testing.T) {
	s := start(t, "/{key}", nil)
	for _, path := range []string{
		"", "docs/{key}", "/docs", "/{key}/{key}", "/{key}/{+key}", "/{ key}", "/{Key}", "/{id}", "/{key", "/key}", "/a b/{key}", "/{key}#f",
		"/é/{key}", "/%zz/{key}", "/../{key}", "/{key}/..", "/%2e%2e/{key}", "/..;/{key}", "/a\n{key}", "http://x/{key}", "/{{key}}", "/{key}?%",
	} {
		if _, err := s.origin.Group(path); err == nil || !strings.Contains(err.Error(), "path") {
			t.Errorf("path %q: %v, want an error that names it", path, err)
		}
		if origin.CheckPath(path) == nil {
			t.Errorf("path %q passes the check", path)
		}
	}
}

// For every key: the server decodes the same key.
func FuzzKeyRoundTrip(f *testing.F) {
	for _, k := range oddKeys {
		f.Add(k)
	}
	type way struct {
		s      *setup
		prefix string
	}
	var got string
	srv := serve(f, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	var ways []way
	for _, path := range []string{"/d/{key}", "/d/{+key}", "/{+key}", "/s?q={key}", "/s?q={+key}"} {
		prefix, _, _ := strings.Cut(path, "{")
		ways = append(ways, way{start(f, path, []string{srv.URL}), prefix})
	}
	f.Fuzz(func(t *testing.T, key string) {
		if !utf8.ValidString(key) || key == "" || len(key) > 1024 {
			return
		}
		for _, w := range ways {
			if w.s.group.CheckKey(key) != nil {
				continue
			}
			if r := w.s.load(t, key, nil); r.err != nil {
				t.Fatalf("%q: %v", key, r.err)
			}
			escaped, ok := strings.CutPrefix(got, w.prefix)
			if !ok {
				t.Fatalf("%q was asked for as %q", key, got)
			}
			decode := url.PathUnescape
			if strings.Contains(w.prefix, "?") {
				decode = url.QueryUnescape
			}
			if back, err := decode(escaped); err != nil || back != key {
				t.Fatalf("%q was asked for as %q, which is %q, %v", key, got, back, err)
			}
			u, err := url.ParseRequestURI(got)
			if err != nil {
				t.Fatalf("%q was asked for as %q: %v", key, got, err)
			}
			for seg := range strings.SplitSeq(u.Path, "/") {
				if seg == "." || seg == ".." {
					t.Fatalf("%q makes a dot segment of %q", key, got)
				}
			}
		}
	})
}
