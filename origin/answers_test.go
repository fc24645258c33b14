package origin_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

func TestValue(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Content-Encoding", "gzip") // but the body is not gzip: the origin never decodes
		h.Set("ETag", `W/"v1"`)
		h.Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		h.Add("Cache-Tag", "red, blue,,red")
		h.Add("Surrogate-Key", "green  blue")
		h.Set("Set-Cookie", "a=b")
		h.Set("Cache-Control", "max-age=60, stale-if-error=5")
		h.Set("Age", "7")
		h.Set("X-Other", "x")
		fmt.Fprint(w, "not gzip")
	})
	s := start(t, "/{key}", []string{srv.URL})
	r := s.load(t, "k", nil)
	r.mustBe(t, "not gzip")
	if cap(r.Entry.Value) != len(r.Entry.Value) {
		t.Errorf("the value has room for %d bytes and %d in it", cap(r.Entry.Value), len(r.Entry.Value))
	}
	r.Entry.Value = nil
	if want := (cache.Entry{
		ContentType: "text/plain; charset=utf-8", ContentEncoding: "gzip", OriginETag: `W/"v1"`,
		LastModified: "Mon, 02 Jan 2006 15:04:05 GMT", Tags: []string{"red", "blue", "green"},
	}); !reflect.DeepEqual(*r.Entry, want) {
		t.Errorf("entry %+v, want %+v", *r.Entry, want)
	}
	if r.Status != 200 || r.Endpoint != "a" || r.NotModified || r.sent != 1 ||
		r.Freshness.TTL != time.Minute || r.Freshness.StaleIfError != 5*time.Second || r.Freshness.Age != 7*time.Second {
		t.Errorf("loaded %+v, sent %d", r.Loaded, r.sent)
	}
}

func TestNoContentType(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		fmt.Fprint(w, "v")
	})
	r := start(t, "/{key}", []string{srv.URL}).load(t, "k", nil)
	r.mustBe(t, "v")
	if r.Entry.ContentType != "application/octet-stream" {
		t.Errorf("Content-Type %q", r.Entry.ContentType)
	}
}

func TestSizes(t *testing.T) {
	const most = 300_000
	body := strings.Repeat("0123456789", most/10+1)
	chunked := false
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscan(r.URL.Path[1:], &n)
		if chunked {
			w.(http.Flusher).Flush()
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		fmt.Fprint(w, body[:n])
	})
	s := start(t, "/{key}", []string{srv.URL}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) { o.Config.MaxBodyBytes = most })
	for _, chunked = range []bool{false, true} {
		for _, n := range []int{0, 1, 4095, 4096, 65535, 65536, 65537, 131072, 200000, most - 1, most} {
			r := s.load(t, fmt.Sprint(n), nil)
			r.mustBe(t, body[:n])
			if cap(r.Entry.Value) != n {
				t.Errorf("%d bytes in room for %d", n, cap(r.Entry.Value))
			}
		}
		r := s.load(t, fmt.Sprint(most+1), nil)
		r.mustFail(t, cache.ErrOriginBadAnswer)
		if r.sent != 1 || !s.healthy("a") {
			t.Errorf("a value that is too long: sent %d, endpoint healthy %v; want 1, and the endpoint not blamed", r.sent, s.healthy("a"))
		}
	}
}

func TestStatuses(t *testing.T) {
	for _, tt := range []struct {
		status   int
		err      *cache.Error // nil: negative
		blamed   bool
		previous *cache.Entry
	}{
		{404, nil, false, nil},
		{410, nil, false, nil},
		{404, nil, false, &cache.Entry{OriginETag: `"v1"`}},
		{201, cache.ErrOriginFailed, false, nil},
		{204, cache.ErrOriginFailed, false, nil},
		{206, cache.ErrOriginBadAnswer, true, nil},
		{301, cache.ErrOriginFailed, false, nil},
		{302, cache.ErrOriginFailed, false, nil},
		{307, cache.ErrOriginFailed, false, nil},
		{304, cache.ErrOriginBadAnswer, true, nil}, // the request had no condition
		{304, cache.ErrOriginBadAnswer, true, &cache.Entry{}},
		{304, cache.ErrOriginBadAnswer, true, &cache.Entry{Negative: true, OriginETag: `"v1"`}},
		{400, cache.ErrOriginFailed, false, nil},
		{401, cache.ErrOriginFailed, false, nil},
		{403, cache.ErrOriginFailed, false, nil},
		{429, cache.ErrOriginFailed, false, nil},
		{500, cache.ErrOriginFailed, false, nil},
		{501, cache.ErrOriginFailed, false, nil},
		{502, cache.ErrOriginFailed, true, nil},
		{503, cache.ErrOriginFailed, true, nil},
		{504, cache.ErrOriginFailed, true, nil},
		{505, cache.ErrOriginFailed, false, nil},
		{599, cache.ErrOriginFailed, false, nil},
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			internal := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
			srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", internal.URL)
				w.WriteHeader(tt.status)
				if tt.status >= 300 && tt.status != 304 {
					fmt.Fprint(w, "never a value")
				}
			})
			s := start(t, "/{key}", []string{srv.URL}, ejectAtOnce)
			r := s.load(t, "k", tt.previous)
			if tt.err != nil {
				r.mustFail(t, tt.err)
			} else if r.err != nil || !r.Entry.Negative || len(r.Entry.Value) != 0 || r.Status != tt.status {
				t.Errorf("loaded %+v, %v; want a negative entry", r.Loaded, r.err)
			}
			if r.Endpoint != "a" {
				t.Errorf("endpoint %q", r.Endpoint) // a failed load names it, too, for explanations
			}
			if r.sent != 1 || s.healthy("a") == tt.blamed {
				t.Errorf("sent %d, endpoint healthy %v; want 1, %v", r.sent, s.healthy("a"), !tt.blamed)
			}
		})
	}
}

// A setting names the statuses that count against an endpoint. It does not
// change what a key gets for them.
func TestFailStatuses(t *testing.T) {
	for _, tt := range []struct {
		statuses []int
		status   int
		blamed   bool
	}{
		{[]int{500}, 500, true},
		{[]int{500}, 503, false},
		{nil, 503, false},
		{[]int{404, 429}, 404, true},
		{[]int{404, 429}, 429, true},
		{[]int{404, 429}, 200, false},
		{[]int{599}, 599, true},
	} {
		var n atomic.Int64
		s := start(t, "/{key}", []string{counting(t, tt.status, &n)}, ejectAtOnce, func(b *balance.Config, _ *origin.Options) { b.Health.FailStatuses = tt.statuses })
		r := s.load(t, "k", nil)
		if (r.err == nil) != (tt.status == 200 || tt.status == 404) {
			t.Errorf("%d: %v", tt.status, r.err)
		}
		if s.healthy("a") == tt.blamed {
			t.Errorf("fail_statuses %v, %d: healthy %v, want %v", tt.statuses, tt.status, s.healthy("a"), !tt.blamed)
		}
	}
}

// An application that answers 500 for some keys is not sick. Its endpoints
// stay, however often such keys are requested, and other keys are answered.
func TestAnApplicationsErrorDoesNotEjectTheEndpoint(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/bad") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, "value")
	}
	s := start(t, "/{key}", []string{serve(t, answer).URL, serve(t, answer).URL}, ejectAtOnce)
	for i := range 20 {
		s.load(t, fmt.Sprint("bad-", i), nil).mustFail(t, cache.ErrOriginFailed)
		s.load(t, "good", nil).mustBe(t, "value")
	}
	if st := s.pool.Status(); !s.healthy("a") || !s.healthy("b") || st.Panic || st.Panics != 0 {
		t.Errorf("status %+v", st)
	}
}

func TestConditionalLoads(t *testing.T) {
	for _, tt := range []struct {
		name               string
		previous           cache.Entry
		wantTag, wantSince string
	}{
		{"tag", cache.Entry{OriginETag: `"v1"`}, `"v1"`, ""},
		{"weak tag", cache.Entry{OriginETag: `W/"v1"`, ETag: `"of the content"`}, `W/"v1"`, ""},
		{"time", cache.Entry{LastModified: "Mon, 02 Jan 2006 15:04:05 GMT"}, "", "Mon, 02 Jan 2006 15:04:05 GMT"},
		{"both", cache.Entry{OriginETag: `"v1"`, LastModified: "Mon, 02 Jan 2006 15:04:05 GMT"}, `"v1"`, "Mon, 02 Jan 2006 15:04:05 GMT"},
		{"one is no header", cache.Entry{OriginETag: "\"v\r\nX: y\"", LastModified: "Mon, 02 Jan 2006 15:04:05 GMT"}, "", "Mon, 02 Jan 2006 15:04:05 GMT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := make(chan http.Header, 2)
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Header
				w.Header().Set("Cache-Control", "max-age=9")
				if r.URL.Path == "/new" {
					fmt.Fprint(w, "new")
					return
				}
				w.WriteHeader(http.StatusNotModified)
			})
			s := start(t, "/{key}", []string{srv.URL})
			r := s.load(t, "k", &tt.previous)
			if r.err != nil || !r.NotModified || r.Entry != nil || r.Status != 304 || r.sent != 1 || r.Freshness.TTL != 9*time.Second {
				t.Errorf("loaded %+v, %v", r.Loaded, r.err)
			}
			h := <-seen
			if got := h.Get("If-None-Match"); got != tt.wantTag {
				t.Errorf("If-None-Match: %s, want %s", got, tt.wantTag)
			}
			if got := h.Get("If-Modified-Since"); got != tt.wantSince {
				t.Errorf("If-Modified-Since: %s, want %s", got, tt.wantSince)
			}
			s.load(t, "new", &tt.previous).mustBe(t, "new")
		})
	}
}

// A 304 with another entity tag is about another entry. The key is requested
// again without a condition.
func TestNotModifiedOfAnotherTag(t *testing.T) {
	for _, tt := range []struct {
		told, had string
		renews    bool
	}{
		{`"v1"`, `"v1"`, true},
		{`W/"v1"`, `"v1"`, true},
		{`"v1"`, `W/"v1"`, true},
		{"", `"v1"`, true},
		{`"v2"`, "", true},
		{`"v2"`, `"v1"`, false},
		{`W/"v2"`, `"v1"`, false},
	} {
		t.Run(tt.told+" for "+tt.had, func(t *testing.T) {
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", tt.told)
				if r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since") != "" {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				fmt.Fprint(w, "new")
			})
			s := start(t, "/{key}", []string{srv.URL}, ejectAtOnce)
			r := s.load(t, "k", &cache.Entry{OriginETag: tt.had, LastModified: "Mon, 02 Jan 2006 15:04:05 GMT"})
			if tt.renews {
				if r.err != nil || !r.NotModified || r.sent != 1 {
					t.Errorf("loaded %+v, %v, sent %d; want a renewal", r.Loaded, r.err, r.sent)
				}
				return
			}
			r.mustBe(t, "new")
			if r.NotModified || r.Status != 200 || r.sent != 2 || !s.healthy("a") {
				t.Errorf("loaded %+v, sent %d, healthy %v", r.Loaded, r.sent, s.healthy("a"))
			}
		})
	}
}

// Tags of a missing key and of an unmodified one are kept, too. An answer that
// depends on more than the key is not stored.
func TestTagsWithoutAValue(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Tag", "red,blue")
		if r.URL.Path == "/varies" {
			w.Header().Set("Vary", "*")
		}
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	s := start(t, "/{key}", []string{srv.URL})
	for key, varies := range map[string]bool{"k": false, "varies": true} {
		r := s.load(t, key, nil)
		if r.err != nil || !r.Entry.Negative || r.Entry.NoStore != varies || !slices.Equal(r.Entry.Tags, []string{"red", "blue"}) {
			t.Errorf("%s is missing: %+v, %v", key, r.Entry, r.err)
		}
	}
	r := s.load(t, "k", &cache.Entry{OriginETag: `"v1"`})
	if r.err != nil || !r.NotModified || !slices.Equal(r.Tags, []string{"red", "blue"}) {
		t.Errorf("not modified: %+v, %v", r.Loaded, r.err)
	}
}

// Bytes behind an answer without a body are as bad as behind a body.
func TestBytesBehindNotModified(t *testing.T) {
	l := lie(t, say("HTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"))
	s := start(t, "/{key}", []string{l.url}, ejectAtOnce)
	r := s.load(t, "k", &cache.Entry{OriginETag: `"v1"`})
	r.mustFail(t, cache.ErrOriginBadAnswer)
	if r.sent != 1 || s.healthy("a") {
		t.Errorf("sent %d, healthy %v; want 1, false", r.sent, s.healthy("a"))
	}
}

// A 304 replaces stored headers, but not those that say how to read the value's
// bytes.
func TestNotModifiedBringsHeaders(t *testing.T) {
	l := lie(t, say("HTTP/1.1 304 Not Modified\r\nETag: W/\"v\"\r\nLast-Modified: Tue, 03 Jan 2006 15:04:05 GMT\r\n"+
		"Content-Type: text/html\r\nContent-Encoding: gzip\r\nCache-Tag: red\r\nCache-Control: max-age=9\r\n\r\n"))
	r := start(t, "/{key}", []string{l.url}).load(t, "k", &cache.Entry{OriginETag: `"v"`, LastModified: "Mon, 02 Jan 2006 15:04:05 GMT"})
	r.Asked = time.Time{}
	want := cache.Loaded{
		NotModified: true, OriginETag: `W/"v"`, LastModified: "Tue, 03 Jan 2006 15:04:05 GMT", ContentType: "text/html", Tags: []string{"red"},
		Status: 304, Endpoint: "a", Freshness: cache.Freshness{TTL: 9 * time.Second, StaleWhileRevalidate: -1, StaleIfError: -1},
	}
	if r.err != nil || !reflect.DeepEqual(r.Loaded, want) {
		t.Errorf("%+v, %v; want %+v", r.Loaded, r.err, want)
	}
}

// A 304 may also say that the value depends on more than the key.
func TestNotModifiedThatVaries(t *testing.T) {
	l := lie(t, say("HTTP/1.1 304 Not Modified\r\nVary: Accept, *\r\n\r\n"))
	r := start(t, "/{key}", []string{l.url}).load(t, "k", &cache.Entry{OriginETag: `"v"`})
	if r.err != nil || !r.NotModified || !r.Freshness.NoStore {
		t.Errorf("loaded %+v, error %v; want what is not to be stored", r.Loaded, r.err)
	}
}

// Broken answers of faults.md: each is no value, closes the connection, blames
// the endpoint, and counts one request for one load.
func TestBrokenAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name   string
		answer func(c net.Conn, r *http.Request, n int64) bool
		err    *cache.Error
	}{
		{"shorter than its length", sayAndClose(ok + "Content-Length: 10\r\n\r\nshort"), cache.ErrOriginBadAnswer},
		{"longer than its length", say(ok + "Content-Length: 5\r\n\r\nlonger than that"), cache.ErrOriginBadAnswer},
		{"two answers", say(ok + "Content-Length: 1\r\n\r\na" + ok + "Content-Length: 1\r\n\r\nb"), cache.ErrOriginBadAnswer},
		{"longer than its length, much", say(ok + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 200000)), cache.ErrOriginBadAnswer},
		{"bytes after the last chunk", say(ok + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nmore"), cache.ErrOriginBadAnswer},
		{"chunked without an end", sayAndClose(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), cache.ErrOriginBadAnswer},
		{"a chunk that is cut", sayAndClose(ok + "Transfer-Encoding: chunked\r\n\r\nff\r\nhello"), cache.ErrOriginBadAnswer},
		{"a bad chunk", say(ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n"), cache.ErrOriginBadAnswer},
		{"two different lengths", say(ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), cache.ErrOriginBadAnswer},
		{"a length behind a blank", sayAndClose(ok + "Content-Length : 5\r\n\r\nhello!"), cache.ErrOriginBadAnswer},
		{"chunks behind a blank", sayAndClose(ok + "transfer-encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), cache.ErrOriginBadAnswer},
		{"a negative length", say(ok + "Content-Length: -5\r\n\r\nhello"), cache.ErrOriginBadAnswer},
		{"a length that is none", say(ok + "Content-Length: five\r\n\r\nhello"), cache.ErrOriginBadAnswer},
		{"an unknown transfer encoding", say(ok + "Transfer-Encoding: gzip\r\n\r\nhello"), cache.ErrOriginBadAnswer},
		{"no HTTP", say("SSH-2.0-OpenSSH_9.2\r\n"), cache.ErrOriginBadAnswer},
		{"another HTTP", say("HTTP/2.0 200 OK\r\nContent-Length: 1\r\n\r\na"), cache.ErrOriginBadAnswer},
		{"a header without a colon", say(ok + "Content-Length 5\r\n\r\nhello"), cache.ErrOriginBadAnswer},
		{"a head that is cut", sayAndClose(ok + "Content-Le"), cache.ErrOriginBadAnswer},
		{"an upgrade", say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), cache.ErrOriginBadAnswer},
		{"interim answers for ever", say(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100)), cache.ErrOriginBadAnswer},
		{"an encoding that cannot be kept", say(ok + "Content-Encoding: a\x01b\r\nContent-Length: 1\r\n\r\na"), cache.ErrOriginBadAnswer},
		{"a 404 that is cut", sayAndClose("HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\nshort"), cache.ErrOriginBadAnswer},
		{"a part", say("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/2\r\nContent-Length: 1\r\n\r\na"), cache.ErrOriginBadAnswer},
		{"a status below 100", say("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"), cache.ErrOriginBadAnswer},
		{"closed without an answer", sayAndClose(""), cache.ErrOriginFailed},
		{"reset without an answer", func(c net.Conn, _ *http.Request, _ int64) bool {
			reset(t, c)
			return false
		}, cache.ErrOriginFailed},
		{"reset in mid-body", func(c net.Conn, r *http.Request, _ int64) bool {
			// A reset also drops bytes that were not read yet, so it may look
			// like no answer at all.
			say(ok+"Content-Length: 10\r\n\r\nshort")(c, r, 0)
			reset(t, c)
			return false
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := lie(t, tt.answer)
			s := start(t, "/{key}", []string{l.url}, ejectAtOnce)
			for i := range int64(2) {
				r := s.load(t, "k", nil)
				if tt.err != nil {
					r.mustFail(t, tt.err)
				} else if !errors.Is(r.err, cache.ErrOriginBadAnswer) && !errors.Is(r.err, cache.ErrOriginFailed) {
					t.Fatalf("loaded %+v, %v", r.Loaded, r.err)
				}
				if r.sent != 1 || l.requests.Load() != i+1 || l.connections.Load() != i+1 {
					t.Errorf("load %d: sent %d, the origin saw %d requests on %d connections", i+1, r.sent, l.requests.Load(), l.connections.Load())
				}
				if s.healthy("a") {
					t.Error("the endpoint was not blamed")
				}
			}
		})
	}
}

// The heads of one answer may have max_header_bytes, in one line or in many. A
// longer head is an error of the key: the endpoint is not blamed, and no other
// one is asked.
func TestHeadsOfAllSizes(t *testing.T) {
	const start200, end = "HTTP/1.1 200 OK\r\n", "Content-Length: 5\r\n\r\n"
	line := func(n int) string { return "X: " + strings.Repeat("x", n-len("X: \r\n")) + "\r\n" }
	for _, tt := range []struct {
		name string
		head func(size int) string // of this many bytes
	}{
		{"one line", func(n int) string { return start200 + line(n-len(start200+end)) + end }},
		{"many lines", func(n int) string {
			n -= len(start200 + end)
			return start200 + strings.Repeat(line(100), n/100-1) + line(100+n%100) + end
		}},
		{"in interim answers", func(n int) string {
			const early = "HTTP/1.1 103 Early Hints\r\n"
			rest := n - len(start200+end)
			first := early + line(rest/2-len(early)-2) + "\r\n"
			second := early + line(rest-len(first)-len(early)-2) + "\r\n"
			return first + second + start200 + end
		}},
		{"a long reason", func(n int) string {
			return "HTTP/1.1 200 " + strings.Repeat("x", n-len("HTTP/1.1 200 \r\n"+end)) + "\r\n" + end
		}},
	} {
		for _, limit := range []int{0, 4096, 20000} { // 0: the default
			t.Run(fmt.Sprintf("%s, %d", tt.name, limit), func(t *testing.T) {
				most := limit
				if most == 0 {
					most = 256 << 10
				}
				var size atomic.Int64
				l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
					return say(tt.head(int(size.Load()))+"hello")(c, r, n)
				})
				s := start(t, "/{key}", []string{l.url, l.url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) {
					if limit != 0 {
						o.Config.MaxHeaderBytes = int64(limit)
					}
				})
				for _, n := range []int{1000, most - 1, most} {
					size.Store(int64(n))
					s.load(t, "k", nil).mustBe(t, "hello")
				}
				for i, n := range []int{most + 1, most + 4097, 4 * most} {
					size.Store(int64(n))
					r := s.load(t, "k", nil)
					r.mustFail(t, cache.ErrOriginBadAnswer)
					if !strings.Contains(r.err.(*cache.Error).Detail, "headers that are longer than max_header_bytes") {
						t.Errorf("%d bytes: %v", n, r.err)
					}
					if r.sent != 1 || l.requests.Load() != int64(4+i) || !s.healthy("a") || !s.healthy("b") {
						t.Errorf("%d bytes: sent %d, %d requests, healthy %v %v", n, r.sent, l.requests.Load(), s.healthy("a"), s.healthy("b"))
					}
				}
			})
		}
	}
}

// The trailers of a chunked body are bounded, too.
func TestTrailersAreBounded(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
	s := start(t, "/{key}", []string{lie(t, say(chunked+"X: "+strings.Repeat("x", 3000)+"\r\n\r\n")).url})
	s.load(t, "k", nil).mustBe(t, "hello")

	for name, line := range map[string]string{"one line": strings.Repeat("x", 1<<16), "many lines": "X: y\r\n"} {
		written := make(chan int, 1)
		l := lie(t, func(c net.Conn, _ *http.Request, _ int64) bool {
			total, err := fmt.Fprint(c, chunked+"X: ")
			for err == nil {
				var n int
				n, err = fmt.Fprint(c, line)
				total += n
			}
			written <- total
			return false
		})
		s := start(t, "/{key}", []string{l.url})
		s.load(t, "k", nil).mustFail(t, cache.ErrOriginBadAnswer)
		if n := <-written; n > 16<<20 { // the buffers of two sockets hold the rest
			t.Errorf("%s: %d bytes of a trailer were taken", name, n)
		}
	}
}

func TestOddAnswersThatAreWhole(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name        string
		answer      func(c net.Conn, r *http.Request, n int64) bool
		connections int64 // for two loads
		closes      bool
	}{
		{"keep-alive", say(ok + "Content-Length: 5\r\n\r\nhello"), 1, false},
		{"one length, twice", say(ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), 1, false},
		{"chunked, with a trailer", say(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n"), 1, false},
		{"after interim answers", say("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + ok + "Content-Length: 5\r\n\r\nhello"), 1, false},
		{"connection: close", say(ok + "Connection: close\r\nContent-Length: 5\r\n\r\nhello"), 2, false},
		{"until the end of the connection", sayAndClose(ok + "\r\nhello"), 2, true},
		{"HTTP/1.0", sayAndClose("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"), 2, true},
		{"closed after it", sayAndClose(ok + "Content-Length: 5\r\n\r\nhello"), 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := lie(t, tt.answer)
			s := start(t, "/{key}", []string{l.url}, ejectAtOnce)
			for i := range int64(2) {
				r := s.load(t, "k", nil)
				r.mustBe(t, "hello")
				if r.sent != 1 {
					t.Errorf("sent %d, want 1", r.sent)
				}
				if tt.closes {
					eventually(t, "the server closes", func() bool { return l.closed.Load() > i })
				}
			}
			if l.connections.Load() != tt.connections || l.requests.Load() != 2 || !s.healthy("a") {
				t.Errorf("%d connections, want %d; %d requests", l.connections.Load(), tt.connections, l.requests.Load())
			}
		})
	}
}

// A blank before the colon does not make another header (RFC 9112 §5.1).
func TestBlanksBehindTheNamesOfHeaders(t *testing.T) {
	l := lie(t, say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nCache-Control: max-age=60\r\ncache-control : no-store\r\nContent-Type  : text/plain\r\n\r\na"))
	r := start(t, "/{key}", []string{l.url}).load(t, "k", nil)
	r.mustBe(t, "a")
	if !r.Freshness.NoStore || r.Freshness.TTL != time.Minute || r.Entry.ContentType != "text/plain" {
		t.Errorf("loaded %+v of type %q", r.Freshness, r.Entry.ContentType)
	}
}

// stingy reads one byte at a time from the kernel, and only when all bytes of
// the server have arrived.
type stingy struct {
	*net.TCPConn
	all func()
}

func (c stingy) Read(p []byte) (int, error) {
	c.all()
	return c.TCPConn.Read(p[:min(1, len(p))])
}

// A TLS server that closes sends a goodbye, which is not a part of the answer
// and may arrive before the answer is read. Bytes of another answer are still
// an error.
func TestWhatFollowsAnAnswerInTLS(t *testing.T) {
	secure, caFile := serverTLS(t)
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
	for _, tt := range []struct {
		name, text string
		err        *cache.Error
	}{
		{"goodbye", ok, nil},
		{"goodbye to what may be compared", "HTTP/1.1 304 Not Modified\r\n\r\n", nil},
		{"a byte and goodbye", ok + "a", cache.ErrOriginBadAnswer},
		{"an answer and goodbye", ok + ok, cache.ErrOriginBadAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wrap := func(c net.Conn) net.Conn { return tls.Server(c, secure) }
			var said atomic.Int64
			l := lieOver(t, "https", wrap, func(c net.Conn, _ *http.Request, _ int64) bool {
				for i := range tt.text { // each byte in a record of its own
					if _, err := c.Write([]byte{tt.text[i]}); err != nil {
						t.Error(err)
					}
				}
				c.Close()
				said.Add(1)
				return false
			})
			s := start(t, "/{key}", []string{l.url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) {
				o.Config.CAFile = caFile
				o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					before := l.requests.Load()
					return stingy{c.(*net.TCPConn), func() {
						if l.requests.Load() > before {
							eventually(t, "all is said", func() bool { return said.Load() > before })
						}
					}}, nil
				}
			})
			for range 2 {
				r := s.load(t, "k", &cache.Entry{OriginETag: `"v"`})
				if tt.err != nil {
					r.mustFail(t, tt.err)
				} else if r.err != nil || r.sent != 1 {
					t.Errorf("sent %d, error %v", r.sent, r.err)
				}
			}
			if n := l.connections.Load(); n != 2 || s.healthy("a") != (tt.err == nil) {
				t.Errorf("%d connections for 2 loads, healthy %v", n, s.healthy("a"))
			}
		})
	}
}

func TestNegativeWithoutItsBody(t *testing.T) {
	l := lie(t, say("HTTP/1.1 404 Not Found\r\nContent-Length: 9000000\r\n\r\nonly a little of it"))
	r := start(t, "/{key}", []string{l.url}).load(t, "k", nil)
	if r.err != nil || !r.Entry.Negative {
		t.Errorf("loaded %+v, %v; want a negative entry without waiting for a long body", r.Loaded, r.err)
	}
}

// An endless answer, of known or unknown length, is cut at max_body_bytes.
func TestEndlessBody(t *testing.T) {
	for _, head := range []string{"\r\n", "Transfer-Encoding: chunked\r\n\r\n", "Content-Length: 10000000000\r\n\r\n"} {
		written := make(chan int, 1)
		l := lie(t, func(c net.Conn, _ *http.Request, _ int64) bool {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"+head)
			block := []byte("1000\r\n" + strings.Repeat("x", 4096) + "\r\n")
			total := 0
			for {
				n, err := c.Write(block)
				total += n
				if err != nil {
					written <- total
					return false
				}
			}
		})
		s := start(t, "/{key}", []string{l.url}, func(_ *balance.Config, o *origin.Options) { o.Config.MaxBodyBytes = 1 << 20 })
		s.load(t, "k", nil).mustFail(t, cache.ErrOriginBadAnswer)
		// The buffers of two sockets hold what was written beyond the limit.
		if n := <-written; n > 16<<20 {
			t.Errorf("%q: %d bytes were taken of a body capped at 1 MiB", head, n)
		}
	}
}

// Bytes that an endpoint sends after a whole answer are not the answer to the
// next key: the connection is not used again.
func TestBytesOnAKeptConnection(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	secure, caFile := serverTLS(t)
	for _, scheme := range []string{"http", "https"} {
		for name, late := range map[string]string{"an answer": evil, "a byte": "H", "a line end": "\r\n", "many answers": strings.Repeat(evil, 1000)} {
			t.Run(scheme+", "+name, func(t *testing.T) {
				wrap := func(c net.Conn) net.Conn { return c }
				if scheme == "https" {
					wrap = func(c net.Conn) net.Conn { return tls.Server(c, secure) }
				}
				kept := make(chan bool, 1)
				l := lieOver(t, scheme, wrap, func(c net.Conn, r *http.Request, n int64) bool {
					key := r.URL.Path[1:]
					if !say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(key), key))(c, r, n) {
						return false
					}
					select {
					case <-kept:
						return say(late)(c, r, n)
					case <-t.Context().Done():
						return false
					}
				})
				var conn atomic.Pointer[net.TCPConn]
				s := start(t, "/{key}", []string{l.url}, ejectAtOnce, func(_ *balance.Config, o *origin.Options) {
					if scheme == "https" {
						o.Config.CAFile = caFile
					}
					o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						c, err := new(net.Dialer).DialContext(ctx, network, addr)
						if err == nil {
							conn.Store(c.(*net.TCPConn))
						}
						return c, err
					}
				})
				for i := range int64(5) {
					key := fmt.Sprint("key-", i)
					r := s.load(t, key, nil)
					r.mustBe(t, key)
					if r.sent != 1 || l.requests.Load() != i+1 || l.connections.Load() != i+1 {
						t.Fatalf("%s: sent %d, %d requests on %d connections; want 1, %d, %d", key, r.sent, l.requests.Load(), l.connections.Load(), i+1, i+1)
					}
					kept <- true
					awaitUnread(t, conn.Load())
				}
				if !s.healthy("a") {
					t.Error("the endpoint was blamed")
				}
			})
		}
	}
}

// An endpoint now and then sends another answer behind the one it owes. The
// surplus never becomes the value of the next key, however many loads wait for
// connections.
func TestAnswersAreNeverMixedUp(t *testing.T) {
	l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
		key := r.URL.Path[1:]
		text := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(key), key)
		if n%10 == 0 {
			text += "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
		}
		return say(text)(c, r, n)
	})
	s := start(t, "/{key}", []string{l.url}, neverEject)
	var values, refused, wrong atomic.Int64
	var wg sync.WaitGroup
	const workers, loads = 16, 100
	for w := range workers {
		wg.Go(func() {
			for i := range loads {
				key := fmt.Sprintf("key-%d-%d", w, i)
				switch r := s.load(t, key, nil); {
				case errors.Is(r.err, cache.ErrOriginBadAnswer):
					refused.Add(1)
				case r.err != nil || string(r.Entry.Value) != key:
					wrong.Add(1)
				default:
					values.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if wrong.Load() != 0 || refused.Load() != workers*loads/10 || values.Load() != workers*loads*9/10 {
		t.Errorf("%d values, %d refused, %d wrong", values.Load(), refused.Load(), wrong.Load())
	}
}
