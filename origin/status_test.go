package origin_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kring/cache"
)

// Every status has one meaning for the stored value (RFC 5861 §4), for the
// endpoint, and for a second try.
func TestEveryStatusMeansOneThing(t *testing.T) {
	answer := func(c net.Conn, r *http.Request, _ int64) bool {
		status, text := r.URL.Path[1:], "\r\nLocation: http://127.0.0.1:1/\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
		if status == "304" {
			text = "\r\nRetry-After: 7\r\n\r\n"
		}
		return say("HTTP/1.1 "+status+" X"+text)(c, r, 0)
	}
	first, second := lie(t, answer), lie(t, say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	values, missing := []int{200}, []int{404, 410}
	down := []int{500, 502, 503, 504} // and unknown statuses
	elsewhere := []int{408, 421, 429}
	refuses := []int{501, 505, 506, 507, 508, 510, 511}
	unasked := []int{206, 304}
	for status := 200; status < 1000; status++ {
		if status > 620 && status < 990 {
			continue // the same as its neighbours
		}
		key := fmt.Sprint(status)
		alone := start(t, "/{key}", []string{first.url}, ejectAtOnce)
		r := alone.load(t, key, nil)
		two := start(t, "/{key}", []string{first.url, second.url}, neverEject).load(t, key, nil)
		var known *cache.Error
		if r.Status != status || r.sent != 1 || r.err != nil && !errors.As(r.err, &known) {
			t.Fatalf("%d: status %d, sent %d, %v", status, r.Status, r.sent, r.err)
		}
		blamed, again := !alone.healthy("a"), two.sent == 2
		want := func(code cache.Code, verdict cache.Verdict, later time.Duration, blame, retry bool) {
			t.Helper()
			switch {
			case known == nil:
				t.Errorf("%d: no error", status)
			case known.Code != code || known.Verdict != verdict || known.RetryAfter != later || blamed != blame || again != retry:
				t.Errorf("%d: %s, verdict %d, retry after %v, blamed %v, tried elsewhere %v; want %s, %d, %v, %v, %v", status,
					known.Code, known.Verdict, known.RetryAfter, blamed, again, code, verdict, later, blame, retry)
			case !strings.Contains(known.Detail, "endpoint a answered "+key):
				t.Errorf("%d: detail %q", status, known.Detail)
			}
			if retry && (two.err != nil || string(two.Entry.Value) != "ok") {
				t.Errorf("%d: tried elsewhere, %+v, %v", status, two.Loaded, two.err)
			}
		}
		const failed, bad, seven = cache.Code("origin-failed"), cache.Code("origin-bad-answer"), 7 * time.Second
		switch {
		case slices.Contains(values, status):
			if r.err != nil || r.Entry.Negative || again {
				t.Errorf("%d: %+v, %v; want a value", status, r.Loaded, r.err)
			}
		case slices.Contains(missing, status):
			if r.err != nil || !r.Entry.Negative || again || blamed {
				t.Errorf("%d: %+v, %v; want a negative entry", status, r.Loaded, r.err)
			}
		case slices.Contains(unasked, status), status > 599:
			want(bad, cache.OriginDown, 0, true, true)
		case slices.Contains(elsewhere, status):
			want(failed, cache.OriginRefuses, seven, false, true)
		case slices.Contains(refuses, status):
			want(failed, cache.OriginRefuses, seven, false, true)
		case slices.Contains(down, status), status >= 500:
			want(failed, cache.OriginDown, seven, status >= 502 && status <= 504, true)
		default:
			want(failed, cache.ValueEnded, 0, false, false)
		}
	}
}

// Retry-After is seconds or a date by the origin's clock, and bounded.
func TestRetryAfterIsHeeded(t *testing.T) {
	date := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC) // years off this machine's clock
	for _, tt := range []struct {
		header string // lines, separated by "|"
		want   time.Duration
	}{
		{"", 0},
		{"Retry-After: 30", 30 * time.Second},
		{"Retry-After: 0", 0},
		{"Retry-After: -30", 0},
		{"Retry-After: 1.5", 0},
		{"Retry-After: soon", 0},
		{"Retry-After: 30, 60", 30 * time.Second},
		{"Retry-After: 30|Retry-After: 60", 30 * time.Second},
		{"Retry-After: 86400", 5 * time.Minute},
		{"Retry-After: 99999999999999999999", 5 * time.Minute},
		{"Retry-After: " + date.Add(time.Minute).Format(http.TimeFormat), time.Minute},
		{"Retry-After: Tuesday, 02-Jan-24 03:05:05 EST", 0},
		{"Retry-After: " + date.Add(time.Hour).Format(http.TimeFormat), 5 * time.Minute},
		{"Retry-After: " + date.Add(-time.Minute).Format(http.TimeFormat), 0},
		{"Retry-After: " + date.Add(time.Minute).Format(http.TimeFormat) + "|Retry-After: x", 0},
	} {
		l := lie(t, say("HTTP/1.1 503 X\r\nDate: "+date.Format(http.TimeFormat)+"\r\n"+
			strings.ReplaceAll(tt.header+"|", "|", "\r\n")+"Content-Length: 0\r\n\r\n"))
		if tt.header == "" {
			l = lie(t, say("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n"))
		}
		r := start(t, "/{key}", []string{l.url}).load(t, "k", nil)
		var known *cache.Error
		if !errors.As(r.err, &known) || known.RetryAfter != tt.want {
			t.Errorf("%q: %+v, want a wait of %v", tt.header, known, tt.want)
		}
	}
	// Without a Date, this machine's clock counts.
	l := lie(t, func(c net.Conn, r *http.Request, _ int64) bool {
		return say("HTTP/1.1 429 X\r\nRetry-After: "+time.Now().Add(2*time.Minute).UTC().Format(http.TimeFormat)+"\r\nContent-Length: 0\r\n\r\n")(c, r, 0)
	})
	r := start(t, "/{key}", []string{l.url}).load(t, "k", nil)
	var known *cache.Error
	if !errors.As(r.err, &known) || known.RetryAfter <= time.Minute || known.RetryAfter > 2*time.Minute {
		t.Errorf("%+v, want a wait of almost two minutes", known)
	}
}

// The client gets the result of the last try.
func TestTheLastTrysRetryAfterCounts(t *testing.T) {
	limited := func(seconds string) string {
		return lie(t, say("HTTP/1.1 429 X\r\nRetry-After: "+seconds+"\r\nContent-Length: 0\r\n\r\n")).url
	}
	r := start(t, "/{key}", []string{limited("5"), limited("9")}, ejectAtOnce).load(t, "k", nil)
	var known *cache.Error
	if !errors.As(r.err, &known) || known.RetryAfter != 9*time.Second || r.sent != 2 {
		t.Errorf("%+v, sent %d", known, r.sent)
	}
}
