package httpapi_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"kring/balance"
	"kring/cache"
)

// TestConditionalGet: a client that has the value is told so, and everything
// about it, but not the value.
func TestConditionalGet(t *testing.T) {
	s := serve(t)
	s.do(t, "PUT /v1/cache/kv/a", "Content-Type: text/plain", "the value")
	etag := s.do(t, "GET /v1/cache/kv/a").Header.Get("ETag")
	for value, status := range map[string]int{
		etag: 304, "W/" + etag: 304, "*": 304, `"x", ` + etag: 304, `"x",W/` + etag + `,"y"`: 304, "\"x\"\r\nIf-None-Match: " + etag: 304,
		`"x"`: 200, "": 200, "nonsense": 200, strings.Trim(etag, `"`): 200, `"x" ` + etag: 200,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := s.raw(t, request(method+" /v1/cache/kv/a", []string{"If-None-Match: " + value}, ""))
			if got.StatusCode != status {
				t.Errorf("%s with %q: %d, want %d", method, value, got.StatusCode, status)
			}
			for _, name := range []string{"ETag", "Age", "Cache-Control", "Cache-Status", "Kring-Node", "Kring-Owner"} {
				if got.Header.Get(name) == "" {
					t.Errorf("%s with %q: no %s", method, value, name)
				}
			}
			if (got.body == "the value") != (status == 200 && method == "GET") {
				t.Errorf("%s with %q: body %q", method, value, got.body)
			}
		}
	}
	if got := s.do(t, "GET /v1/cache/kv/missing", "If-None-Match: *"); got.StatusCode != 404 {
		t.Errorf("what is not there: %d", got.StatusCode)
	}
	for value, status := range map[string]int{etag: 412, "W/" + etag: 412, `"x"`: 204} {
		if got := s.do(t, "PUT /v1/cache/kv/a", "If-None-Match: "+value, "the value"); got.StatusCode != status {
			t.Errorf("PUT with If-None-Match %q: %d, want %d", value, got.StatusCode, status)
		}
	}
	for value, status := range map[string]int{etag: 204, "W/" + etag: 412, `"x", ` + etag: 204} {
		if got := s.do(t, "PUT /v1/cache/kv/a", "If-Match: "+value, "the value"); got.StatusCode != status {
			t.Errorf("PUT with If-Match %q: %d, want %d", value, got.StatusCode, status)
		}
	}
}

// TestBatchInBinary writes and reads the documented frames by hand.
func TestBatchInBinary(t *testing.T) {
	s := serve(t)
	s.do(t, "PUT /v1/cache/kv/a", "Content-Type: text/plain", "\x00\xffvalue")
	etag := s.do(t, "GET /v1/cache/kv/a").Header.Get("ETag")
	frame := func(op byte, keys ...string) string {
		out := binary.BigEndian.AppendUint32([]byte{1, op}, uint32(len(keys)))
		for _, k := range keys {
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(k))), k...)
		}
		return string(out)
	}
	const mediaType = "application/vnd.kring.batch"
	ask := func(body string) answer {
		return s.raw(t, request("POST /v1/batch/kv", []string{"Content-Type: " + mediaType, "Accept: " + mediaType}, body))
	}
	got := ask(frame(1, "a", "b", "\xff"))
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != mediaType {
		t.Fatalf("%d %q: %q", got.StatusCode, got.Header.Get("Content-Type"), got.body)
	}
	want := [][]string{
		{"a", "", "text/plain", "", etag, "\x00\xffvalue"},
		{"b", "not-found", "", "", "", ""},
		{"\xff", "bad-key", "", "", "", ""},
	}
	rest := []byte(got.body)
	if rest[0] != 1 || binary.BigEndian.Uint32(rest[1:]) != 3 {
		t.Fatalf("begins %q", rest[:5])
	}
	rest = rest[5:]
	for i, status := range []uint16{200, 404, 400} {
		if got := binary.BigEndian.Uint16(rest); got != status {
			t.Errorf("entry %d: status %d, want %d", i, got, status)
		}
		rest = rest[6:] // status, age
		for _, field := range want[i] {
			n := binary.BigEndian.Uint32(rest)
			if got := string(rest[4 : 4+n]); got != field {
				t.Errorf("entry %d: %q, want %q", i, got, field)
			}
			rest = rest[4+n:]
		}
	}
	if len(rest) > 0 {
		t.Errorf("something follows: %q", rest)
	}
	for accept, binary := range map[string]bool{
		mediaType: true, "application/json, " + mediaType: true, mediaType + ";q=0.5, */*": true, mediaType + ";q=0": false,
		mediaType + ";q=0.5, application/json": false, "*/*": false, mediaType + "er": false,
	} {
		got := s.raw(t, request("POST /v1/batch/kv", []string{"Content-Type: " + mediaType, "Accept: " + accept}, frame(1, "\xff")))
		if is := got.Header.Get("Content-Type") == mediaType; is != binary {
			t.Errorf("Accept %q: %s", accept, got.Header.Get("Content-Type"))
		}
		if !binary && !strings.Contains(got.body, `"key_base64":"/w=="`) {
			t.Errorf("a key that is no UTF-8 cannot be told from %s", got.body)
		}
	}
	if got := ask(frame(2, "a")); got.StatusCode != 200 {
		t.Errorf("delete: %d %q", got.StatusCode, got.body)
	}
	if got := s.do(t, "GET /v1/cache/kv/a"); got.StatusCode != 404 {
		t.Errorf("after the delete: %d", got.StatusCode)
	}
	for _, bad := range []string{"\x00", "\x02\x01\x00\x00\x00\x00", "\x01\x03\x00\x00\x00\x00", frame(1, "a") + "x", frame(1, "abc")[:9]} {
		if got := ask(bad); got.StatusCode != 400 {
			t.Errorf("%q: %d", bad, got.StatusCode)
		}
	}
	if got := ask("\x01\x01\xff\xff\xff\xff"); got.StatusCode != 413 {
		t.Errorf("four thousand million keys: %d", got.StatusCode)
	}
}

// TestLargeBatch is answered in pieces, in order, and counts each key.
func TestLargeBatch(t *testing.T) {
	s := serve(t)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "k" + itoa(i)
		if i%3 == 0 {
			s.do(t, "PUT /v1/cache/kv/"+keys[i], strings.Repeat(itoa(i), 500))
		}
	}
	body, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	before := s.cache.Stats()
	var out struct {
		Entries []struct {
			Key    string
			Status int
			Value  string
		}
	}
	if err := json.Unmarshal([]byte(s.do(t, "POST /v1/batch/kv", string(body)).body), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Entries) != len(keys) {
		t.Fatalf("%d entries", len(out.Entries))
	}
	for i, e := range out.Entries {
		status, value := 404, ""
		if i%3 == 0 {
			status, value = 200, strings.Repeat(itoa(i), 500)
		}
		if e.Key != keys[i] || e.Status != status || e.Value != value {
			t.Fatalf("entry %d: %q %d, %d bytes", i, e.Key, e.Status, len(e.Value))
		}
	}
	after := s.cache.Stats()
	if gets, hits := after.Gets-before.Gets, after.Hits-before.Hits; gets != 1000 || hits != 1000 {
		t.Errorf("%d gets, %d hits", gets, hits)
	}
	body, err = json.Marshal(map[string]any{"delete": keys})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.do(t, "POST /v1/batch/kv", string(body)); strings.Count(got.body, `"status":204`) != len(keys) {
		t.Errorf("delete: %.200s", got.body)
	}
	if n := s.cache.Stats().Entries; n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

func TestAnswerOfAnotherNode(t *testing.T) {
	far := &cache.Entry{Value: []byte("far"), ETag: `"t"`, ContentType: "text/plain"}
	s := serve(t, actsElsewhere(t, answering(far, nil)))
	got := s.do(t, "GET /v1/cache/kv/a")
	if got.StatusCode != 200 || got.body != "far" {
		t.Fatalf("%d %q", got.StatusCode, got.body)
	}
	for name, want := range map[string]string{
		"Cache-Status": "kring-2; hit, kring-1; fwd=miss; detail=peer:kring-2", "Kring-Node": "kring-1", "Kring-Owner": "kring-2",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	got = s.do(t, "DELETE /v1/cache/kv")
	if got.StatusCode != 504 || !strings.Contains(got.body, `"/problems/write-unconfirmed"`) ||
		!strings.Contains(got.body, `"unconfirmed":["kring-2","kring-3"]`) {
		t.Errorf("purge: %d %q", got.StatusCode, got.body)
	}
	got = s.do(t, "POST /v1/purge/kv", `{"tags":["a"]}`)
	if got.StatusCode != 504 || !strings.Contains(got.body, `"unconfirmed":["kring-2","kring-3"]`) {
		t.Errorf("purge by tag: %d %q", got.StatusCode, got.body)
	}
}

// TestErrorOfAnotherNode: its cause stays in the house.
func TestErrorOfAnotherNode(t *testing.T) {
	s := serve(t, actsElsewhere(t, answering(nil, cache.ErrOriginBadAnswer.Because(errors.New("secret")))))
	got := s.do(t, "GET /v1/cache/docs/a")
	if got.StatusCode != 502 || !strings.Contains(got.body, "/problems/origin-bad-answer") || strings.Contains(got.body, "secret") {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
}

// TestPanic: a bug in a handler is one request's 500, and its trace is in the
// log.
func TestPanic(t *testing.T) {
	s := serve(t, func(c *setup) { c.options.Draining = onceBroken() })
	// Handler asks once, the handler of readyz again.
	got := s.do(t, "GET /readyz")
	if got.StatusCode != 500 || !strings.Contains(got.body, "/problems/internal") || strings.Contains(got.body, "a bug") {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
	if log := s.log.String(); !strings.Contains(log, "panic: a bug") || !strings.Contains(log, "operators.go") {
		t.Errorf("no trace in the log")
	}
	if got := s.do(t, "GET /readyz"); got.StatusCode != 200 {
		t.Errorf("afterwards: %d", got.StatusCode)
	}
}

func onceBroken() func() bool {
	calls := 0
	return func() bool {
		if calls++; calls == 2 {
			panic("a bug")
		}
		return false
	}
}

func TestNotReady(t *testing.T) {
	s := serve(t, func(c *setup) {
		c.peers.Config.Peers = []string{testNode + "=http://127.0.0.1:8001", "kring-2=http://127.0.0.1:8002"}
		c.peers.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	got := s.do(t, "GET /readyz")
	if got.StatusCode != 503 || !strings.Contains(got.body, "/problems/not-ready") || !strings.Contains(got.body, `"detail":"`) {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
	if got := s.do(t, "GET /v1/cluster"); !strings.Contains(got.body, `"id":"kring-2"`) {
		t.Errorf("cluster: %q", got.body)
	}
}

func TestPools(t *testing.T) {
	cfg := balance.DefaultConfig()
	cfg.Name = "docs"
	cfg.Endpoints = []balance.EndpointConfig{{Name: "a", URL: "http://127.0.0.1:8100", Weight: 1}, {Name: "b", URL: "http://127.0.0.1:8101", Weight: 0}}
	pool, err := balance.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := serve(t, func(c *setup) { c.options.Pools = []*balance.Pool{pool} })
	one := s.do(t, "GET /v1/pools/docs")
	for _, want := range []string{
		`"name":"docs","policy":"smooth_weighted","state":"local","degraded":false`,
		`"name":"a","url":"http://127.0.0.1:8100","weight":1`, `"eligible":true,"healthy":true,"reason":""`,
	} {
		if !strings.Contains(one.body, want) {
			t.Errorf("%q lacks %q", one.body, want)
		}
	}
	if all := s.do(t, "GET /v1/pools"); all.body != `{"pools":[`+strings.TrimSuffix(one.body, "\n")+"]}\n" {
		t.Errorf("all: %q", all.body)
	}
	metrics := s.do(t, "GET /metrics").body
	for _, want := range []string{`kring_endpoint_eligible{endpoint="a",pool="docs"} 1`, `kring_endpoint_eligible{endpoint="b",pool="docs"} 0`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// TestMetrics: their names and helps are as Prometheus wants them, and no
// label has a key in it.
func TestMetrics(t *testing.T) {
	s := serve(t)
	for _, line := range []string{"GET /v1/cache/docs/secret-key", "GET /secret-path", "POST /v1/cache/kv/secret-key", "GET /v1/cache/secret-group/a"} {
		s.do(t, line)
	}
	text := s.do(t, "GET /metrics").body
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if strings.Contains(text, "secret") {
		t.Error("a label has a key or a path in it")
	}
	for _, want := range []string{
		`kring_http_requests_total{method="GET",route="/v1/cache/:group/*key",status="200"} 1`,
		`kring_http_requests_total{method="other",route="none",status="404"} 1`,
		`kring_http_requests_total{method="other",route="none",status="405"} 1`,
		`kring_http_request_duration_seconds_count{method="GET",route="/v1/cache/:group/*key"} 2`,
		`kring_member_active{member="kring-1"} 1`, `kring_member_share_ratio{member="kring-1"} 1`,
		`kring_store_entries 1`, `kring_answers_total{answer="load",group="docs"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
