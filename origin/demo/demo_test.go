package demo_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/origin/demo"
)

type document struct{ Key, Version, SHA256, Pad string }

func newServer(t *testing.T, o demo.Options) *demo.Server {
	t.Helper()
	s, err := demo.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func ask(s *demo.Server, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func read(t *testing.T, w *httptest.ResponseRecorder) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, body %q: %v", w.Code, w.Body, err)
	}
	return d
}

func TestDocumentProvesItself(t *testing.T) {
	s := newServer(t, demo.Options{Control: demo.Control{Version: "7", Size: 101}})
	d := read(t, ask(s, "GET", "/docs/user:42", ""))
	if d.Key != "user:42" || d.Version != "7" || len(d.Pad) != 101 {
		t.Errorf("got %+v", d)
	}
	sum := sha256.Sum256([]byte(d.Key + "\n" + d.Version + "\n" + d.Pad))
	if d.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("sha256 %s does not match", d.SHA256)
	}
	if again := read(t, ask(s, "GET", "/docs/user:42", "")); again != d {
		t.Errorf("the same key gave another document: %+v", again)
	}
	if other := read(t, ask(s, "GET", "/docs/user:43", "")); other.Pad == d.Pad {
		t.Error("two keys have the same pad")
	}
}

// Keys that caches and routers often mangle arrive unchanged over a real
// connection.
func TestKeysAreExact(t *testing.T) {
	s := newServer(t, demo.Options{})
	server := httptest.NewServer(s)
	defer server.Close()
	for _, row := range []struct{ path, key string }{
		{"/docs/a", "a"},
		{"/docs/a/b", "a/b"},
		{"/docs/a%2Fb", "a/b"},
		{"/docs/a%252Fb", "a%2Fb"},
		{"/docs//a", "/a"},
		{"/docs/a//b/", "a//b/"},
		{"/docs/./x", "./x"},
		{"/docs/../x", "../x"},
		{"/docs/a+b", "a+b"},
		{"/docs/a%20b", "a b"},
		{"/docs/%25", "%"},
		{"/docs/%23", "#"},
		{"/docs/%3F", "?"},
		{"/docs/%F0%9F%98%80", "😀"},
		{"/docs/", ""},
		{"/search?q=a%2Bb", "a+b"},
		{"/search?q=a%2Fb%26c", "a/b&c"},
	} {
		status, body := raw(t, server, "GET "+row.path+" HTTP/1.1")
		var d document
		if err := json.Unmarshal([]byte(body), &d); err != nil || status != 200 {
			t.Errorf("%s: status %d, body %q: %v", row.path, status, body, err)
			continue
		}
		if d.Key != row.key {
			t.Errorf("%s: got key %q, want %q", row.path, d.Key, row.key)
		}
		if got := s.KeyStats(row.key).Loads; got == 0 {
			t.Errorf("%s: %q was not counted", row.path, row.key)
		}
	}
	for _, bad := range []string{"/docs/%FF", "/search?q=%zz"} {
		if status, body := raw(t, server, "GET "+bad+" HTTP/1.1"); status != 400 {
			t.Errorf("%s: status %d, body %q", bad, status, body)
		}
	}
}

func raw(t *testing.T, server *httptest.Server, request string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s\r\nHost: origin\r\nConnection: close\r\n\r\n", request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestConditionalRequests(t *testing.T) {
	s := newServer(t, demo.Options{Control: demo.Control{Version: "1"}})
	first := ask(s, "GET", "/docs/k", "")
	tag, stamp := first.Header().Get("ETag"), first.Header().Get("Last-Modified")
	if tag == "" || stamp == "" {
		t.Fatalf("no validators: %v", first.Header())
	}
	for _, row := range []struct {
		name   string
		header []string
		status int
	}{
		{"the tag", []string{"If-None-Match", tag}, 304},
		{"the tag among others, weak", []string{"If-None-Match", `"x", W/` + tag}, 304},
		{"any", []string{"If-None-Match", "*"}, 304},
		{"another tag", []string{"If-None-Match", `"x"`}, 200},
		{"the time", []string{"If-Modified-Since", stamp}, 304},
		{"an older time", []string{"If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"}, 200},
		{"another tag beats the time", []string{"If-None-Match", `"x"`, "If-Modified-Since", stamp}, 200},
	} {
		if w := ask(s, "GET", "/docs/k", "", row.header...); w.Code != row.status {
			t.Errorf("%s: status %d, want %d", row.name, w.Code, row.status)
		}
	}
	if w := ask(s, "PUT", "/_/control", `{"version": 2}`); w.Code != 200 {
		t.Fatalf("control: %d %s", w.Code, w.Body)
	}
	w := ask(s, "GET", "/docs/k", "", "If-None-Match", tag)
	if d := read(t, w); d.Version != "2" || w.Header().Get("ETag") == tag {
		t.Errorf("after a new version: %+v, ETag %s", d, w.Header().Get("ETag"))
	}
}

func TestControlChangesWhatItNames(t *testing.T) {
	missing, err := demo.ParseMissing("20%")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, demo.Options{Control: demo.Control{Latency: demo.Duration(time.Second), Version: "1", Missing: missing}})
	w := ask(s, "PUT", "/_/control", `{"size": 5, "latency": 0}`)
	const want = `{"latency":"0s","jitter":"0s","error_rate":0,"version":"1","missing":0.2,"size":5,"cache_control":""}` + "\n"
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := ask(s, "GET", "/_/control", ""); w.Body.String() != want {
		t.Errorf("GET gave %s", w.Body)
	}
	before := s.Control()
	for _, bad := range []string{
		`{"latencyy": "1s"}`, `{"latency": "1x"}`, `{"latency": "-1s"}`, `{"jitter": true}`, `{"error_rate": 1.1}`, `{"error_rate": "x"}`,
		`{"missing": 2}`, `{"missing": "("}`, `{"missing": null}`, `{"missing": []}`, `{"version": []}`, `{"size": -1}`, `{"size": 1.5}`, `{"cache_control": "a\nb"}`, `{`, ``, `{} {}`,
	} {
		if w := ask(s, "PUT", "/_/control", bad); w.Code != 400 || strings.Count(w.Body.String(), "\n") != 1 {
			t.Errorf("%s: got %d %q, want 400 and one line", bad, w.Code, w.Body)
		}
	}
	if s.Control() != before {
		t.Errorf("a refused control changed something: %+v", s.Control())
	}
}

func TestFailingAndMissing(t *testing.T) {
	s := newServer(t, demo.Options{Control: demo.Control{ErrorRate: 1}})
	if w := ask(s, "GET", "/docs/k", ""); w.Code != 500 {
		t.Errorf("error rate 1: %d", w.Code)
	}
	set(t, s, `{"error_rate": 0, "missing": "^absent-"}`)
	if a, b := ask(s, "GET", "/docs/absent-1", "").Code, ask(s, "GET", "/docs/present", "").Code; a != 404 || b != 200 {
		t.Errorf("pattern: %d, %d", a, b)
	}
	set(t, s, `{"missing": "25%"}`)
	gone := 0
	for i := range 4000 {
		path := fmt.Sprintf("/docs/user:%d", i)
		code := ask(s, "GET", path, "").Code
		if code == 404 {
			gone++
		}
		if again := ask(s, "GET", path, "").Code; again != code {
			t.Fatalf("%s: %d, then %d", path, code, again)
		}
	}
	if gone < 900 || gone > 1100 {
		t.Errorf("%d of 4000 keys are missing, want about 1000", gone)
	}
}

func set(t *testing.T, s *demo.Server, control string) {
	t.Helper()
	if w := ask(s, "PUT", "/_/control", control); w.Code != 200 {
		t.Fatalf("control %s: %d %s", control, w.Code, w.Body)
	}
}

func TestBooksAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := demo.New(demo.Options{Control: demo.Control{Latency: demo.Duration(time.Second)}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, leave := context.WithCancel(t.Context())
		for i := range 5 {
			go func() {
				r := httptest.NewRequest("GET", fmt.Sprintf("/docs/k%d", i%2), nil)
				s.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
			}()
		}
		synctest.Wait()
		if got := s.Stats(); got.InFlight != 5 || got.Peak != 5 || got.Loads != 5 || got.PeakWindow != 5 || got.Keys != 2 || got.MaxPerKey != 3 {
			t.Errorf("while they wait: %+v", got)
		}
		if got := s.KeyStats("k0"); got.Loads != 3 || got.InFlight != 3 || got.Status != 0 {
			t.Errorf("k0 while they wait: %+v", got)
		}
		leave()
		synctest.Wait()
		ask(s, "GET", "/docs/k0", "")
		if got := time.Since(start); got != time.Second {
			t.Errorf("the answer took %v of a latency of 1s", got)
		}
		if got := s.Stats(); got.InFlight != 0 || got.Left != 5 || got.OK != 1 || got.Peak != 5 {
			t.Errorf("at the end: %+v", got)
		}
		if got := s.KeyStats("k0"); got.Loads != 4 || got.Status != 200 || got.Peak != 3 {
			t.Errorf("k0 at the end: %+v", got)
		}
		if w := ask(s, "GET", "/_/stats/k%30", ""); w.Body.String() != `{"key":"k0","loads":4,"in_flight":0,"peak_in_flight":3,"last_status":200}`+"\n" {
			t.Errorf("/_/stats/k0: %s", w.Body)
		}
		if w := ask(s, "DELETE", "/_/stats", ""); w.Code != 204 || s.Stats() != (demo.Stats{}) {
			t.Errorf("after a reset: %d, %+v", w.Code, s.Stats())
		}
	})
}

func TestRequestsInFlightSurviveAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := demo.New(demo.Options{Control: demo.Control{Latency: demo.Duration(time.Second)}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			ask(s, "GET", "/docs/k", "")
		}()
		synctest.Wait()
		ask(s, "DELETE", "/_/stats", "")
		if got := s.Stats().InFlight; got != 1 {
			t.Errorf("in flight after a reset: %d", got)
		}
		<-ended
		if got := s.Stats(); got.InFlight != 0 || got.OK != 0 || got.Loads != 0 {
			t.Errorf("a request of the books before is in the new ones: %+v", got)
		}
	})
}

func TestFilesOfADirectory(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "served")
	for name, text := range map[string]string{"secret.txt": "secret", "served/a.txt": "text of a", "served/sub/b": "b", "served/a b+c": "odd"} {
		path := filepath.Join(outside, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, demo.Options{Dir: dir})
	for _, row := range []struct {
		key    string
		status int
		text   string
	}{
		{"a.txt", 200, "text of a"},
		{"sub/b", 200, "b"},
		{"a b+c", 200, "odd"},
		{"sub", 404, ""},
		{"", 404, ""},
		{"none", 404, ""},
		{"../secret.txt", 404, ""},
		{"sub/../../secret.txt", 404, ""},
		{filepath.Join(outside, "secret.txt"), 404, ""},
		{"link", 404, ""},
		{"a.txt\x00", 404, ""},
	} {
		w := ask(s, "GET", "/docs/"+url.PathEscape(row.key), "")
		if w.Code != row.status || (row.status == 200 && w.Body.String() != row.text) {
			t.Errorf("%q: got %d %q", row.key, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%q: the file outside was served", row.key)
		}
	}
	w := ask(s, "GET", "/docs/a.txt", "")
	if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	if again := ask(s, "GET", "/docs/a.txt", "", "If-None-Match", w.Header().Get("ETag")); again.Code != 304 {
		t.Errorf("with the file's tag: %d", again.Code)
	}
	if head := ask(s, "HEAD", "/docs/a.txt", ""); head.Body.Len() != 0 || head.Header().Get("Content-Length") != "9" {
		t.Errorf("HEAD: %q, %v", head.Body, head.Header())
	}
}

func TestWhatIsRefused(t *testing.T) {
	s := newServer(t, demo.Options{})
	for _, row := range []struct {
		method, target string
		status         int
	}{
		{"POST", "/docs/k", 405},
		{"POST", "/_/stats", 405},
		{"DELETE", "/_/stats/k", 405},
		{"POST", "/_/control", 405},
		{"GET", "/", 404},
		{"GET", "/_/other", 404},
	} {
		w := ask(s, row.method, row.target, "")
		if w.Code != row.status || (w.Code == 405) != (w.Header().Get("Allow") != "") {
			t.Errorf("%s %s: %d, Allow %q", row.method, row.target, w.Code, w.Header().Get("Allow"))
		}
	}
	if got := s.Stats().Loads; got != 0 {
		t.Errorf("%d loads were counted", got)
	}
	if _, err := demo.New(demo.Options{Dir: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a directory that is not there was accepted")
	}
	if _, err := demo.New(demo.Options{Control: demo.Control{Size: -1}}); err == nil {
		t.Error("a negative size was accepted")
	}
}
