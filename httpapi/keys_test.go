package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// spellings are keys as bytes, and the ways to write them in a path.
var spellings = []struct {
	key   string
	paths []string
	code  string // of the refusal, or ""
}{
	{"", []string{""}, "bad-key"},
	{".", []string{".", "%2e", "%2E"}, ""},
	{"..", []string{"..", "%2E%2e", ".%2e"}, ""},
	{"../x", []string{"../x", "..%2Fx"}, ""},
	{"a/b", []string{"a/b", "a%2Fb", "a%2fb", "%61/b"}, ""},
	{"a//b", []string{"a//b", "a%2F/b", "a/%2Fb"}, ""},
	{"/", []string{"/", "%2F"}, ""},
	{"//a", []string{"//a", "%2F%2Fa", "/%2Fa"}, ""},
	{"a/", []string{"a/", "a%2F"}, ""},
	{"a/./b", []string{"a/./b", "a/%2e/b"}, ""},
	{"a b", []string{"a%20b"}, ""},
	{"a+b", []string{"a+b", "a%2Bb"}, ""},
	{"a%2Fb", []string{"a%252Fb"}, ""},
	{"a%20b", []string{"a%2520b"}, ""},
	{"%", []string{"%25"}, ""},
	{"#", []string{"%23", "#"}, ""},
	{"?", []string{"%3F"}, ""},
	{"A", []string{"A", "%41"}, ""},
	{"a|b", []string{"a%7Cb", "a|b"}, ""},
	{"a|/b", []string{"a%7C%2Fb", "a|/b", "a|%2Fb"}, ""},
	{"a\"<>^`{}\\b", []string{"a%22%3C%3E%5E%60%7B%7D%5Cb", "a\"<>^`{}\\b"}, ""},
	{"http://127.0.0.1/x?y=z", []string{"http://127.0.0.1/x%3Fy=z", "http%3A%2F%2F127.0.0.1%2Fx%3Fy%3Dz"}, ""},
	{"ключ", []string{"%D0%BA%D0%BB%D1%8E%D1%87", "ключ"}, ""},
	{"😀", []string{"%F0%9F%98%80", "😀"}, ""},
	{"\ufffd", []string{"%EF%BF%BD"}, ""},
	{"a\nb", []string{"a%0Ab"}, "bad-key"},
	{"a\r\nb", []string{"a%0D%0Ab"}, "bad-key"},
	{"a\x00b", []string{"a%00b"}, "bad-key"},
	{"a\x7fb", []string{"a%7Fb"}, "bad-key"},
	{"\xff\xfe", []string{"%FF%FE"}, "bad-key"},
	{"\xed\xa0\x80", []string{"%ED%A0%80"}, "bad-key"},
	{strings.Repeat("k", 1024), []string{strings.Repeat("k", 1024), strings.Repeat("%6b", 1024)}, ""},
	{strings.Repeat("k", 1025), []string{strings.Repeat("k", 1025), strings.Repeat("%6b", 1025)}, "key-too-long"},
}

// TestEachKeyIsItself puts a value of its own under each key, and then reads
// all of them back by every spelling.
func TestEachKeyIsItself(t *testing.T) {
	s := serve(t)
	for i, sp := range spellings {
		for _, path := range sp.paths {
			got := s.do(t, "PUT /v1/cache/kv/"+path, fmt.Sprint("value ", i))
			wantOutcome(t, "PUT "+path, got, sp.code, 201, 204)
		}
	}
	for i, sp := range spellings {
		for _, path := range sp.paths {
			got := s.do(t, "GET /v1/cache/kv/"+path)
			wantOutcome(t, "GET "+path, got, sp.code, 200)
			if want := fmt.Sprint("value ", i); sp.code == "" && got.body != want {
				t.Errorf("GET %s: %q, want %q", path, got.body, want)
			}
			for name, values := range got.Header {
				if v := strings.Join(values, ""); strings.ContainsAny(v, "\r\n\x00") {
					t.Errorf("GET %s: header %s has control characters: %q", path, name, v)
				}
			}
		}
	}
	if log := s.log.String(); strings.Contains(log, "value ") || strings.Contains(log, "kkkk") || strings.Contains(log, "\xff") {
		t.Error("the log has keys or values in it")
	}
}

func TestEachKeyIsItselfInABatch(t *testing.T) {
	s := serve(t)
	var keys []string
	for i, sp := range spellings {
		if sp.code == "" {
			s.do(t, "PUT /v1/cache/kv/"+url.PathEscape(sp.key), fmt.Sprint("value ", i))
		}
		if sp.code != "bad-key" || sp.key == "" || sp.key[0] < 0x80 { // JSON cannot tell the others
			keys = append(keys, sp.key)
		}
	}
	body, err := json.Marshal(map[string][]string{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	got := s.do(t, "POST /v1/batch/kv", string(body))
	var out struct {
		Entries []struct {
			Key    string
			Status int
			Code   string
			Value  string
		}
	}
	if err := json.Unmarshal([]byte(got.body), &out); err != nil {
		t.Fatalf("%v: %q", err, got.body)
	}
	if len(out.Entries) != len(keys) {
		t.Fatalf("%d entries for %d keys", len(out.Entries), len(keys))
	}
	for i, sp := range spellings {
		for j, key := range keys {
			if key != sp.key {
				continue
			}
			e := out.Entries[j]
			if e.Key != key || e.Code != sp.code || (sp.code == "" && e.Value != fmt.Sprint("value ", i)) {
				t.Errorf("key %q: %+v", key, e)
			}
		}
	}
}

func wantOutcome(t *testing.T, what string, got answer, code string, statuses ...int) {
	t.Helper()
	if code != "" {
		if got.StatusCode < 400 || got.StatusCode > 499 || !strings.Contains(got.body, "/problems/"+code) {
			t.Errorf("%.60s: %d %q, want %s", what, got.StatusCode, got.body, code)
		}
		return
	}
	for _, status := range statuses {
		if got.StatusCode == status {
			return
		}
	}
	t.Errorf("%.60s: %d %q, want %v", what, got.StatusCode, got.body, statuses)
}

// TestNoCleaningNorRedirect: no key is answered by a redirect, by which routers
// clean paths.
func TestNoCleaningNorRedirect(t *testing.T) {
	s := serve(t)
	for _, path := range []string{
		"/v1/cache/kv/a/../../../../healthz", "/v1/cache/kv//", "/v1/cache/kv/a/", "/v1/cache/kv/./", "/v1//cache/kv/a",
		"/v1/cache/../healthz", "/./healthz", "//healthz", "/v1/stats/", "/HEALTHZ", "/v1/cache/kv/%2e%2e/%2e%2e/healthz",
	} {
		got := s.do(t, "GET "+path)
		if got.StatusCode != 404 && got.StatusCode != 400 {
			t.Errorf("%s: %d, want 404 or 400", path, got.StatusCode)
		}
		if loc := got.Header.Get("Location"); loc != "" {
			t.Errorf("%s: redirects to %s", path, loc)
		}
	}
}
