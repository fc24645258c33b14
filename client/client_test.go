package client_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kring/client"
	"kring/node/nodetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a node that counts its requests and answers as the test says.
type fakeNode struct {
	URL   string
	asked atomic.Int64

	mu     sync.Mutex // guards answer and last
	answer http.HandlerFunc
	last   *http.Request
	body   string
}

func newNode(t *testing.T, name string, answer http.HandlerFunc) *fakeNode {
	t.Helper()
	n := &fakeNode{answer: answer}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.asked.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		n.mu.Lock()
		n.last, n.body = r, string(body)
		answer := n.answer
		n.mu.Unlock()
		w.Header().Set("Kring-Node", name)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	n.URL = s.URL
	return n
}

func (n *fakeNode) seen() (*http.Request, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last, n.body
}

func say(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // some tests cancel the request
	}
}

func problem(status int, code string) http.HandlerFunc {
	return say(status, fmt.Sprintf(`{"type":"/problems/%s","title":"t","status":%d,"detail":"why","node":"n","request_id":"r-1"}`, code, status),
		"Content-Type", "application/problem+json", "Retry-After", "2")
}

// broken closes the connection instead of an answer.
func broken(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// truncated announces more than it sends.
func truncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10")
	_, _ = io.WriteString(w, "four")
	panic(http.ErrAbortHandler)
}

// hung answers only after the client has left.
func hung(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// newClient makes a client whose silence time-out is too long for a busy
// machine to cause, unless the test sets one.
func newClient(t *testing.T, cfg client.Config, nodes ...*fakeNode) *client.Client {
	t.Helper()
	cfg.SilenceTimeout = cmp.Or(cfg.SilenceTimeout, time.Minute)
	cfg.PerTryTimeout = cmp.Or(cfg.PerTryTimeout, time.Minute)
	for _, n := range nodes {
		cfg.Nodes = append(cfg.Nodes, n.URL)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestGet(t *testing.T) {
	n := newNode(t, "kring-1", say(200, "hello", "Content-Type", "text/plain", "ETag", `"v1"`, "Age", "7",
		"Cache-Status", "kring-1; hit; ttl=37", "Kring-Owner", "kring-2"))
	c := newClient(t, client.Config{Token: "secret"}, n)
	v, err := c.Get(t.Context(), "docs", "a/b")
	if err != nil {
		t.Fatal(err)
	}
	want := client.Meta{
		Node: "kring-1", Owner: "kring-2", ETag: `"v1"`, ContentType: "text/plain", Age: 7 * time.Second,
		CacheStatus: "kring-1; hit; ttl=37",
	}
	if string(v.Body) != "hello" || v.Meta != want {
		t.Errorf("got %q, %+v; want %+v", v.Body, v.Meta, want)
	}
	if r, _ := n.seen(); r.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("sent Authorization %q", r.Header.Get("Authorization"))
	}
}

// The bytes of a key must not change the request's route.
func TestKeysAreSentExactly(t *testing.T) {
	n := newNode(t, "n", say(200, ""))
	c := newClient(t, client.Config{}, n)
	for key, path := range map[string]string{
		"a":        "/v1/cache/docs/a",
		"a/b":      "/v1/cache/docs/a%2Fb",
		"//a":      "/v1/cache/docs/%2F%2Fa",
		"a%2Fb":    "/v1/cache/docs/a%252Fb",
		".":        "/v1/cache/docs/%2E",
		"..":       "/v1/cache/docs/%2E%2E",
		"../../x":  "/v1/cache/docs/..%2F..%2Fx",
		"a b":      "/v1/cache/docs/a%20b",
		"a+b":      "/v1/cache/docs/a%2Bb",
		"?x=1#y":   "/v1/cache/docs/%3Fx%3D1%23y",
		"😀":        "/v1/cache/docs/%F0%9F%98%80",
		"http://x": "/v1/cache/docs/http%3A%2F%2Fx",
	} {
		if _, err := c.Get(t.Context(), "docs", key); err != nil {
			t.Errorf("%q: %v", key, err)
			continue
		}
		if r, _ := n.seen(); r.RequestURI != path {
			t.Errorf("%q was sent as %s, want %s", key, r.RequestURI, path)
		}
	}
}

func TestPathOfANodesURLIsKept(t *testing.T) {
	n := newNode(t, "n", say(200, ""))
	c := newClient(t, client.Config{Nodes: []string{n.URL + "/caches/one/"}})
	if _, err := c.Get(t.Context(), "docs", "a"); err != nil {
		t.Fatal(err)
	}
	if r, _ := n.seen(); r.RequestURI != "/caches/one/v1/cache/docs/a" {
		t.Errorf("sent %s", r.RequestURI)
	}
}

func TestConditions(t *testing.T) {
	n := newNode(t, "n", say(304, "", "ETag", `"v1"`))
	c := newClient(t, client.Config{}, n)
	v, err := c.GetIfNoneMatch(t.Context(), "docs", "a", `"v1"`)
	if err != nil || !v.NotModified || v.ETag != `"v1"` {
		t.Errorf("got %+v, %v", v, err)
	}
	n.set(problem(504, "not-cached"))
	if _, err := c.GetWith(t.Context(), "docs", "a", client.GetOptions{OnlyIfCached: true}); !errors.Is(err, client.ErrNotCached) {
		t.Errorf("got %v, want ErrNotCached", err)
	}
	if r, _ := n.seen(); r.Header.Get("Cache-Control") != "only-if-cached" {
		t.Errorf("sent %v", r.Header)
	}
	n.set(say(304, ""))
	if _, err := c.Get(t.Context(), "docs", "a"); err == nil {
		t.Error("a 304 to an unconditional request passed as a value")
	}
}

func (n *fakeNode) set(answer http.HandlerFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

func TestPut(t *testing.T) {
	n := newNode(t, "n", say(201, ""))
	c := newClient(t, client.Config{}, n)
	w, err := c.Put(t.Context(), "kv", "a", []byte("hello"), client.PutOptions{ContentType: "text/plain", TTL: 1500 * time.Millisecond})
	if err != nil || !w.Created || w.Node != "n" {
		t.Errorf("got %+v, %v", w, err)
	}
	r, body := n.seen()
	if r.Method != "PUT" || r.RequestURI != "/v1/cache/kv/a?ttl=1.5s" || body != "hello" ||
		r.Header.Get("Content-Type") != "text/plain" || r.ContentLength != 5 {
		t.Errorf("sent %s %s, %v, body %q", r.Method, r.RequestURI, r.Header, body)
	}
	n.set(say(204, ""))
	if w, err = c.Put(t.Context(), "kv", "a", nil, client.PutOptions{IfMatch: `"v1"`}); err != nil || w.Created {
		t.Errorf("got %+v, %v", w, err)
	}
	if r, _ = n.seen(); r.Header.Get("If-Match") != `"v1"` || r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
		t.Errorf("sent %v, length %d", r.Header, r.ContentLength)
	}
	n.set(problem(412, "precondition-failed"))
	if _, err = c.Put(t.Context(), "kv", "a", nil, client.PutOptions{IfAbsent: true}); !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("got %v", err)
	}
	if r, _ = n.seen(); r.Header.Get("If-None-Match") != "*" {
		t.Errorf("sent %v", r.Header)
	}
}

func TestPurgeNamesTheNodesThatDidNotConfirm(t *testing.T) {
	n := newNode(t, "n", say(504, `{"type":"/problems/write-unconfirmed","status":504,"unconfirmed":["kring-3"]}`,
		"Content-Type", "application/problem+json"))
	c := newClient(t, client.Config{}, n, newNode(t, "m", say(204, "")))
	for range 2 { // the other node then has its turn; this is not a retry
		err := c.PurgeTags(t.Context(), "docs", "a", "b")
		var e *client.Error
		if errors.As(err, &e) {
			if !errors.Is(err, client.ErrWriteUnconfirmed) || fmt.Sprint(e.Unconfirmed) != "[kring-3]" {
				t.Errorf("got %v", err)
			}
		} else if err != nil {
			t.Errorf("got %v", err)
		}
	}
	if got := c.Counters(); got.Retries != 0 {
		t.Errorf("%d retries of a write that may still happen", got.Retries)
	}
	if r, body := n.seen(); r.Method != "POST" || r.URL.Path != "/v1/purge/docs" || body != `{"tags":["a","b"]}` {
		t.Errorf("sent %s %s %s", r.Method, r.URL, body)
	}
	for _, tag := range []string{"", "\xff"} {
		if err := c.PurgeTags(t.Context(), "docs", tag); !errors.Is(err, client.ErrBadRequest) {
			t.Errorf("tag %q: %v", tag, err)
		}
	}
}

func TestErrorsCarryTheirProblem(t *testing.T) {
	n := newNode(t, "n", problem(404, "not-found"))
	c := newClient(t, client.Config{}, n)
	_, err := c.Get(t.Context(), "docs", "a")
	var e *client.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if e.Status != 404 || e.Detail != "why" || e.RequestID != "r-1" || e.RetryAfter != 2*time.Second || e.Node != "n" {
		t.Errorf("got %+v", e)
	}
	if !errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrUnknownGroup) {
		t.Errorf("%v matches the wrong code", err)
	}
}

func TestBadRequestsAreNotSent(t *testing.T) {
	n := newNode(t, "n", say(200, ""))
	c := newClient(t, client.Config{}, n)
	_, empty := c.Get(t.Context(), "docs", "")
	_, slash := c.Get(t.Context(), "docs/..", "a")
	if !errors.Is(empty, client.ErrBadKey) || !errors.Is(slash, client.ErrBadGroup) {
		t.Errorf("got %v, %v", empty, slash)
	}
	items, err := c.BatchGet(t.Context(), "docs", []string{"a\xff"})
	if err != nil || len(items) != 1 || items[0].Key != "a\xff" || !errors.Is(items[0].Err(), client.ErrBadKey) {
		t.Errorf("got %+v, %v", items, err)
	}
	_, tag := c.GetIfNoneMatch(t.Context(), "docs", "a", "\"x\"\r\nX: y")
	_, kind := c.Put(t.Context(), "docs", "a", nil, client.PutOptions{ContentType: "text/plain\n"})
	_, match := c.Put(t.Context(), "docs", "a", nil, client.PutOptions{IfMatch: "\x00"})
	for _, err := range []error{tag, kind, match} {
		if !errors.Is(err, client.ErrBadRequest) || errors.Is(err, client.ErrUnavailable) {
			t.Errorf("got %v, want ErrBadRequest", err)
		}
	}
	if n.asked.Load() != 0 {
		t.Errorf("%d requests were sent", n.asked.Load())
	}
}

func TestBatch(t *testing.T) {
	n := newNode(t, "n", func(w http.ResponseWriter, r *http.Request) {})
	n.set(func(w http.ResponseWriter, _ *http.Request) {
		_, body := n.seen()
		var ask map[string][]string
		if err := json.Unmarshal([]byte(body), &ask); err != nil {
			say(400, "")(w, nil)
			return
		}
		var parts []string
		for _, k := range ask["keys"] {
			part := map[string]string{
				"text":    `{"key":"text","status":200,"content_type":"text/plain","etag":"\"t\"","age":1.5,"value":"hi"}`,
				"binary":  `{"key":"binary","status":200,"value_base64":"/wA="}`,
				"missing": `{"key":"missing","status":404}`,
			}[k]
			parts = append(parts, part)
		}
		for _, k := range ask["delete"] {
			parts = append(parts, `{"key":"`+k+`","status":204}`)
		}
		say(200, `{"entries":[`+strings.Join(parts, ",")+`]}`)(w, nil)
	})
	c := newClient(t, client.Config{BatchKeys: 2}, n)
	items, err := c.BatchGet(t.Context(), "docs", []string{"missing", "text", "binary"})
	if err != nil || len(items) != 3 {
		t.Fatalf("got %+v, %v", items, err)
	}
	if items[0].Err() == nil || string(items[1].Body) != "hi" || items[1].Age != 1500*time.Millisecond || string(items[2].Body) != "\xff\x00" {
		t.Errorf("got %+v", items)
	}
	if n.asked.Load() != 2 {
		t.Errorf("%d requests, want 2 of at most 2 keys", n.asked.Load())
	}
	// A key that cannot be sent does not affect the other keys.
	items, err = c.BatchGet(t.Context(), "docs", []string{"\xff", "missing", "text", "a\xfe", "binary"})
	if err != nil || len(items) != 5 {
		t.Fatalf("got %+v, %v", items, err)
	}
	for i, want := range []int{400, 404, 200, 400, 200} {
		if items[i].Status != want {
			t.Errorf("item %d: %+v, want status %d", i, items[i], want)
		}
	}
	items, err = c.BatchDelete(t.Context(), "docs", []string{"x"})
	if err != nil || len(items) != 1 || items[0].Err() != nil {
		t.Errorf("got %+v, %v", items, err)
	}
	n.set(say(200, `{"entries":[{"key":"other","status":200,"value":"x"}]}`))
	if _, err := c.BatchGet(t.Context(), "docs", []string{"x"}); err == nil {
		t.Error("another key's entry was accepted")
	}
}

func TestConfigErrors(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"at least one":  {},
		"http://":       {Nodes: []string{"127.0.0.1:8001"}},
		"has no host":   {Nodes: []string{"http://"}},
		"twice":         {Nodes: []string{"http://a:1", "http://a:1/"}},
		"password":      {Nodes: []string{"http://u:p@a:1"}},
		"query":         {Nodes: []string{"http://a:1?x"}},
		"policy":        {Nodes: []string{"http://a:1"}, Policy: "dice"},
		"timeout: -1":   {Nodes: []string{"http://a:1"}, Timeout: -1},
		"token":         {Nodes: []string{"http://a:1"}, Token: "secret\n"},
		"max tries: -1": {Nodes: []string{"http://a:1"}, MaxTries: -1},
	} {
		if _, err := client.New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"length": say(200, "too long", "Content-Length", "8"),
		"chunked": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "too")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, " long")
		},
	} {
		n, other := newNode(t, "n", answer), newNode(t, "m", answer)
		c := newClient(t, client.Config{MaxAnswerBytes: 7}, n, other)
		if _, err := c.Get(t.Context(), "docs", "a"); !errors.Is(err, client.ErrAnswerTooLong) || errors.Is(err, client.ErrUnavailable) {
			t.Errorf("%s: got %v", name, err)
		}
		if sum := n.asked.Load() + other.asked.Load(); sum != 1 {
			t.Errorf("%s: %d nodes were asked for what is too long anywhere", name, sum)
		}
		c = newClient(t, client.Config{MaxAnswerBytes: 8}, n)
		if v, err := c.Get(t.Context(), "docs", "a"); err != nil || string(v.Body) != "too long" {
			t.Errorf("%s: just as long as it may be: got %+v, %v", name, v, err)
		}
	}
}

func TestBufferIsUsedAgain(t *testing.T) {
	n := newNode(t, "n", say(200, "12345"))
	c := newClient(t, client.Config{}, n)
	buffer := make([]byte, 3, 16)
	v, err := c.GetWith(t.Context(), "docs", "a", client.GetOptions{Buffer: buffer})
	if err != nil || string(v.Body) != "12345" || &v.Body[0] != &buffer[0] {
		t.Errorf("got %q, %v, not in the buffer", v.Body, err)
	}
}

// refusing is a URL without a listener.
func refusing(t *testing.T) string {
	t.Helper()
	return "http://" + nodetest.FreeAddress(t)
}

func TestCallerLeaves(t *testing.T) {
	first, second := newNode(t, "n", hung), newNode(t, "m", hung)
	c := newClient(t, client.Config{}, first, second)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for first.asked.Load()+second.asked.Load() == 0 {
			<-tick.C
		}
		cancel()
	}()
	if _, err := c.Get(ctx, "docs", "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if sum := first.asked.Load() + second.asked.Load(); sum != 1 {
		t.Errorf("%d nodes were asked, want the first only", sum)
	}
}
