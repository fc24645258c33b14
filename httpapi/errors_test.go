package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kring/cache"
	"kring/cluster"
)

// TestFailures holds the table of codes to the one that clients were promised.
func TestFailures(t *testing.T) {
	promised := map[int][]cache.Code{
		400: {"bad-key", "bad-group", "bad-ttl", "bad-request"},
		401: {"unauthorized"},
		403: {"forbidden"},
		404: {"not-found", "unknown-group", "unknown-pool", "no-route", "unknown-assignment"},
		405: {"method-not-allowed"},
		412: {"precondition-failed"},
		413: {"value-too-large"},
		414: {"key-too-long"},
		417: {"expectation-failed"},
		409: {"too-many-endpoints"},
		426: {"upgrade-required"},
		429: {"rate-limited"},
		431: {"header-too-large"},
		499: {"client-gone"},
		500: {"internal"},
		501: {"transfer-coding"},
		502: {"origin-failed", "origin-bad-answer"},
		503: {"overloaded", "no-eligible-endpoint", "draining", "cut-off", "not-ready", "pool-degraded"},
		504: {"origin-timeout", "not-cached", "write-unconfirmed"},
		505: {"http-version"},
	}
	n := 0
	for status, codes := range promised {
		for _, code := range codes {
			n++
			f, ok := failures[code]
			if !ok || f.status != status || f.title == "" || f.detail == "" {
				t.Errorf("%s: %+v, want status %d", code, f, status)
			}
			if (status == 503 || status == 429) != (f.retryAfter > 0) {
				t.Errorf("%s: Retry-After %d", code, f.retryAfter)
			}
		}
	}
	if n != len(failures) {
		t.Errorf("the table has %d codes, %d are promised", len(failures), n)
	}
	for _, e := range cache.Errors {
		if _, ok := failures[e.Code]; !ok {
			t.Errorf("the table has no row for the cache's error %s", e.Code)
		}
	}
}

func TestKnown(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   cache.Code
		detail string
	}{
		{cache.ErrBadKey, "bad-key", ""},
		{fmt.Errorf("get: %w", cache.ErrBadKey.With("why")), "bad-key", "why"},
		{cache.ErrOriginFailed.Because(context.DeadlineExceeded), "origin-failed", ""},
		{context.Canceled, "client-gone", ""},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), "origin-timeout", ""},
		{errors.New("secret"), "internal", ""},
		{&cache.Error{Code: "unheard-of", Detail: "secret"}, "internal", ""},
		{&cluster.UnconfirmedError{Nodes: []string{"kring-2"}}, "write-unconfirmed", "not confirmed by kring-2"},
	} {
		e, f := known(c.err)
		if e.Code != c.code || e.Detail != c.detail || f != failures[c.code] {
			t.Errorf("%v: %s %q %+v", c.err, e.Code, e.Detail, f)
		}
	}
}

func TestProblemAsText(t *testing.T) {
	p := problem{Type: "/problems/bad-key", Title: "Title", Status: 400, Detail: "two\nlines"}
	for accept, text := range map[string]bool{
		"": false, "*/*": false, "text/html, */*": false, "text/plain": true, "text/plain;q=0.5, */*;q=0.1": true,
		"application/json, text/plain": false, "application/problem+json": false,
		"text/plain;q=0": false, "text/plain;q=0.0, */*": false, "text/plain, application/json;q=0": true, "TEXT/PLAIN": true,
		"text/plain;q=0.9, application/problem+json": false, "text/plain;q=2": false, "text/plainer": false,
	} {
		body, contentType := p.render([]string{"text/html", accept})
		if text {
			if want := "400 bad-key: Title: two lines\n"; string(body) != want || contentType != "text/plain; charset=utf-8" {
				t.Errorf("%s: %q %q", accept, contentType, body)
			}
			continue
		}
		var back problem
		if err := json.Unmarshal(body, &back); err != nil || back.Detail != p.Detail || contentType != "application/problem+json" {
			t.Errorf("%s: %q %q %v", accept, contentType, body, err)
		}
	}
}

// Each status of a client whose request was not read has its problem, and a
// header has room for the longest key, each byte of it escaped.
func TestRequestsThatAreNotRead(t *testing.T) {
	a := newTestAPI(t)
	for status := range unread {
		want := fmt.Sprintf("HTTP/1.1 %d ", status)
		if got := string(a.explainUnread(status)); !strings.HasPrefix(got, want) || !strings.Contains(got, `"type":"/problems/`) {
			t.Errorf("%d: %q", status, got)
		}
	}
	if most := a.Server().MaxHeaderBytes; most != 16<<10+3*1024 {
		t.Errorf("%d bytes of header", most)
	}
}
