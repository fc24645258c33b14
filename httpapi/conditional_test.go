package httpapi_test

import (
	"strings"
	"testing"
)

// The conditions of a GET are evaluated in the order of RFC 9110 §13.2.2. The
// origin's value was modified at 10:00:00 on the first of November 2025; a value
// that was PUT has no such time.
func TestConditionsOfAGet(t *testing.T) {
	s := serve(t)
	s.do(t, "PUT /v1/cache/kv/a", "Content-Type: text/plain", "the value")
	tags := map[string]string{}
	for _, path := range []string{"/v1/cache/docs/a", "/v1/cache/kv/a"} {
		tags[path] = s.do(t, "GET "+path).Header.Get("ETag")
	}
	const (
		before, same, after = "Sat, 01 Nov 2025 09:59:59 GMT", "Sat, 01 Nov 2025 10:00:00 GMT", "Sat, 01 Nov 2025 10:00:01 GMT"
		invalid             = "Sat, 01 Nov 2025 9:00:00 GMT"
	)
	for _, tt := range []struct {
		conditions string // lines, separated by "|"; TAG is the value's own
		origin     int    // the status of the value that was loaded
		plain      int    // of the one that was PUT
	}{
		{"If-Modified-Since: " + before, 200, 200},
		{"If-Modified-Since: " + same, 304, 200},
		{"If-Modified-Since: " + after, 304, 200},
		{"If-Modified-Since: " + strings.ToLower(same), 304, 200},
		{"If-Modified-Since: Saturday, 01-Nov-25 10:00:00 GMT", 304, 200},
		{"If-Modified-Since: Sat Nov  1 10:00:00 2025", 304, 200},
		{"If-Modified-Since: " + invalid, 200, 200},
		{"If-Modified-Since: 0", 200, 200},
		{"If-Modified-Since: ", 200, 200},
		{"If-Modified-Since: " + same + ", " + same, 200, 200},
		{"If-Modified-Since: " + same + "|If-Modified-Since: " + same, 200, 200},
		{"If-Modified-Since: " + after + `|If-None-Match: "x"`, 200, 200},
		{"If-Modified-Since: " + before + "|If-None-Match: TAG", 304, 304},
		{"If-Modified-Since: " + after + "|If-None-Match: nonsense", 200, 200},

		{"If-Unmodified-Since: " + before, 412, 200},
		{"If-Unmodified-Since: " + same, 200, 200},
		{"If-Unmodified-Since: " + after, 200, 200},
		{"If-Unmodified-Since: " + invalid, 200, 200},
		{"If-Unmodified-Since: " + before + "|If-Unmodified-Since: " + before, 200, 200},
		{"If-Unmodified-Since: " + before + "|If-Match: TAG", 200, 200},
		{"If-Unmodified-Since: " + before + "|If-None-Match: TAG", 412, 304},
		{"If-Unmodified-Since: " + same + "|If-Modified-Since: " + same, 304, 200},

		{"If-Match: TAG", 200, 200},
		{"If-Match: *", 200, 200},
		{`If-Match: "x", TAG`, 200, 200},
		{`If-Match: "x"|If-Match: TAG`, 200, 200},
		{`If-Match: "x"`, 412, 412},
		{"If-Match: W/TAG", 412, 412}, // the comparison is strong
		{`If-Match: "x"|If-None-Match: TAG`, 412, 412},
		{`If-Match: "x"|If-Modified-Since: ` + after, 412, 412},
		{"If-Match: TAG|If-None-Match: TAG", 304, 304},
		{"If-Match: TAG|If-Modified-Since: " + same, 304, 200},
		{"If-Match: nonsense", 400, 400},
		{"If-Match: ", 400, 400},
	} {
		for path, want := range map[string]int{"/v1/cache/docs/a": tt.origin, "/v1/cache/kv/a": tt.plain} {
			lines := strings.Split(strings.ReplaceAll(tt.conditions, "TAG", tags[path]), "|")
			for _, method := range []string{"GET", "HEAD"} {
				got := s.raw(t, request(method+" "+path, lines, ""))
				if got.StatusCode != want {
					t.Errorf("%s %s with %s: %d, want %d", method, path, tt.conditions, got.StatusCode, want)
				}
				if got.Header.Get("Cache-Status") == "" || got.Header.Get("Kring-Owner") == "" {
					t.Errorf("%s %s with %s: %v", method, path, tt.conditions, got.Header)
				}
				if (got.StatusCode == 200 && method == "GET" || got.StatusCode >= 400 && method == "GET") != (got.body != "") {
					t.Errorf("%s %s with %s: body %q", method, path, tt.conditions, got.body)
				}
				if got.StatusCode == 304 && (got.Header.Get("ETag") != tags[path] || got.Header.Get("Age") == "" || got.Header.Get("Cache-Control") == "") {
					t.Errorf("%s %s with %s: %v", method, path, tt.conditions, got.Header)
				}
			}
		}
	}
	// A missing key has no conditions: the answer would not be a 2xx (§13.2.1).
	for _, path := range []string{"/v1/cache/docs/missing%20x", "/v1/cache/kv/missing"} {
		for _, line := range []string{"If-Match: *", `If-Match: "x"`, "If-None-Match: *", "If-Unmodified-Since: " + before, "If-Modified-Since: " + after} {
			if got := s.do(t, "GET "+path, line); got.StatusCode != 404 {
				t.Errorf("%s with %s: %d", path, line, got.StatusCode)
			}
		}
	}
	if got := s.do(t, "GET /v1/cache/docs/broken%20x", `If-Match: "x"`); got.StatusCode != 502 {
		t.Errorf("an origin that fails: %d", got.StatusCode)
	}
	if got := s.do(t, "GET /v1/cache/docs/b", "Cache-Control: only-if-cached", `If-Match: "x"`); got.StatusCode != 504 {
		t.Errorf("only-if-cached of what is not: %d", got.StatusCode)
	}
	// A write never ignores a condition that it cannot hold against the value.
	for _, line := range []string{"PUT /v1/cache/docs/a", "PUT /v1/cache/kv/a"} {
		if got := s.do(t, line, "If-Unmodified-Since: "+before, "new"); got.StatusCode != 400 {
			t.Errorf("%s with If-Unmodified-Since: %d", line, got.StatusCode)
		}
		if got := s.do(t, "DELETE"+strings.TrimPrefix(line, "PUT"), "If-Unmodified-Since: "+before); got.StatusCode != 400 {
			t.Errorf("DELETE with If-Unmodified-Since: %d", got.StatusCode)
		}
	}
}
