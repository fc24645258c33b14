package origin

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"kring/balance"
	"kring/cache"
)

func TestFreshness(t *testing.T) {
	const s = time.Second
	date := func(d time.Duration) string {
		return time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) // this machine's clock is years off
	with := func(f func(f *cache.Freshness)) cache.Freshness {
		fresh := cache.Unsaid
		f(&fresh)
		return fresh
	}
	ttl := func(d time.Duration) cache.Freshness { return with(func(f *cache.Freshness) { f.TTL = d }) }
	for _, tt := range []struct {
		header string // lines separated by "|"
		want   cache.Freshness
	}{
		{"", cache.Unsaid},
		{"Cache-Control: public", cache.Unsaid},
		{"Cache-Control: max-age=60", ttl(60 * s)},
		{"cache-control: MAX-AGE = 60", ttl(60 * s)},
		{`Cache-Control: max-age="60"`, ttl(60 * s)},
		{"Cache-Control: max-age=0", ttl(0)},
		{"Cache-Control: max-age", ttl(0)},
		{"Cache-Control: max-age=soon", ttl(0)},
		{"Cache-Control: max-age=-1", ttl(0)},
		{"Cache-Control: max-age=1.5", ttl(0)},
		{"Cache-Control: max-age=99999999999999999999", ttl(maxSeconds * s)},
		{"Cache-Control: max-age=60, max-age=30", ttl(30 * s)},
		{"Cache-Control: max-age=60|Cache-Control: max-age=30", ttl(30 * s)},
		{`Cache-Control: private="a, max-age=5", max-age=60`, with(func(f *cache.Freshness) { f.TTL, f.NoStore = 60*s, true })},
		{`Cache-Control: x="a\", max-age=5", max-age=60`, ttl(60 * s)},
		{`Cache-Control: max-age=60, x="a, no-store`, with(func(f *cache.Freshness) { f.TTL, f.NoStore = 60*s, true })}, // the closing quote is missing
		{`Cache-Control: max-age="60`, ttl(0)},
		{`Cache-Control: x="a, "max-age=60`, with(func(f *cache.Freshness) {})},
		{"Cache-Control: max-age='60'", ttl(0)},
		{"Cache-Control: max-age=+60", ttl(0)},
		{"Cache-Control: max-age=60 30", ttl(0)},
		{"Cache-Control: max-age=", ttl(0)},
		{`Cache-Control: max-age=""`, ttl(0)},
		{"Cache-Control: max-age=0060", ttl(60 * s)},
		{"Cache-Control: max-age=60, max-age=soon", ttl(0)},
		{"Cache-Control: max-age=60, x-max-age=1, max-age-x=1", ttl(60 * s)},
		{"Cache-Control: max-age=60; no-store", ttl(0)},
		{`Cache-Control: s-maxage="9", max-age=60`, with(func(f *cache.Freshness) { f.TTL, f.MustRevalidate = 9*s, true })},
		{"Cache-Control: s-maxage=soon, max-age=60", with(func(f *cache.Freshness) { f.TTL, f.MustRevalidate = 0, true })},
		{"Cache-Control: s-maxage=-9", with(func(f *cache.Freshness) { f.TTL, f.MustRevalidate = 0, true })},
		{"Cache-Control: s-maxage=99999999999999999999", with(func(f *cache.Freshness) { f.TTL, f.MustRevalidate = maxSeconds*s, true })},
		{"Cache-Control: s-maxage=9, S-MaxAge=3", with(func(f *cache.Freshness) { f.TTL, f.MustRevalidate = 3*s, true })},
		{"Cache-Control: no-store", with(func(f *cache.Freshness) { f.NoStore = true })},
		{"Cache-Control: private", with(func(f *cache.Freshness) { f.NoStore = true })},
		{"Cache-Control: no-cache", with(func(f *cache.Freshness) { f.NoCache = true })},
		{"Cache-Control: must-revalidate, max-age=1", with(func(f *cache.Freshness) { f.TTL, f.MustRevalidate = s, true })},
		{"Cache-Control: proxy-revalidate", with(func(f *cache.Freshness) { f.MustRevalidate = true })},
		{"Cache-Control: max-age=1, s-maxage=9", with(func(f *cache.Freshness) { f.TTL, f.MustRevalidate = 9*s, true })},
		{"Cache-Control: s-maxage=9, stale-while-revalidate=3", with(func(f *cache.Freshness) { f.TTL, f.StaleWhileRevalidate = 9*s, 3*s })},
		{"Cache-Control: stale-if-error=0", with(func(f *cache.Freshness) { f.StaleIfError = 0 })},
		{"Cache-Control: max-age=60|Age: 7", with(func(f *cache.Freshness) { f.TTL, f.Age = 60*s, 7*s })},
		{"Age: -7", cache.Unsaid},
		{"Age: x", cache.Unsaid},
		{"Age: 7.0", cache.Unsaid},
		{`Age: "7"`, cache.Unsaid},
		{"Age: +7", cache.Unsaid},
		{"Age: 7;x=y", cache.Unsaid},
		{"Age: 99999999999", with(func(f *cache.Freshness) { f.Age = maxSeconds * s })},
		{"Age: 99999999999999999999", with(func(f *cache.Freshness) { f.Age = maxSeconds * s })},
		{"Age: 2147483649", with(func(f *cache.Freshness) { f.Age = maxSeconds * s })},
		{"Age: 007", with(func(f *cache.Freshness) { f.Age = 7 * s })},
		{"Age: 7200, 0", with(func(f *cache.Freshness) { f.Age = 7200 * s })},
		{"Age: 0, 7200", cache.Unsaid},
		{"Age: 7200|Age: 0", with(func(f *cache.Freshness) { f.Age = 7200 * s })},
		{"Age: 0|Age: 7200", cache.Unsaid},
		{"Age: |Age: 7200", with(func(f *cache.Freshness) { f.Age = 7200 * s })},
		{"Age: x, 7200", cache.Unsaid},
		{"Date: " + date(0) + "|Expires: " + date(30*s), ttl(30 * s)},
		{"Date: " + date(0) + "|Expires: " + date(-30*s), ttl(0)},
		{"Date: " + date(0) + "|Expires: " + date(30*s) + "|Cache-Control: max-age=5", ttl(5 * s)},
		{"Date: " + date(0) + "|Expires: " + strings.ToLower(date(30*s)), ttl(30 * s)},
		{"Date: " + date(0) + "|Expires: " + date(30*s) + "|Expires: " + date(30*s), ttl(0)},
		{"Date: " + date(0) + "|Expires: " + date(30*s) + ", " + date(30*s), ttl(0)},
		{"Date: " + date(0) + "|Expires: " + strings.Replace(date(30*s), "03:", "3:", 1), ttl(0)},
		{"Date: " + date(0) + "|Expires: " + strings.Replace(date(30*s), " ", "  ", 1), ttl(0)},
		{"Date: " + date(0) + "|Expires: " + strings.Replace(date(30*s), "GMT", "UTC", 1), ttl(0)},
		{"Date: " + date(0) + "|Expires: Tuesday, 02-Jan-24 03:04:35 GMT", ttl(30 * s)},
		{"Date: " + date(0) + "|Expires: Tue Jan  2 03:04:35 2024", ttl(30 * s)},
		{"Date: yesterday|Expires: " + now.Add(time.Minute).Format(http.TimeFormat), ttl(time.Minute)},
		{"Date: " + date(0) + "|Date: " + date(0) + "|Expires: " + now.Add(time.Minute).Format(http.TimeFormat), ttl(time.Minute)},
		{"Date: " + date(0) + "|Expires: " + date(100*365*24*time.Hour), ttl(maxSeconds * s)},
		{"Expires: -1", ttl(0)},
		{"Expires: 0", ttl(0)},
		{"Expires: ", ttl(0)},
		{"Expires: " + date(0), ttl(0)}, // without a Date, by this machine's clock
		{"Expires: " + now.Add(time.Minute).Format(http.TimeFormat), ttl(time.Minute)},
	} {
		h := http.Header{}
		for line := range strings.SplitSeq(tt.header, "|") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				h.Add(name, strings.TrimSpace(value))
			}
		}
		if got := freshness(h, now); got != tt.want {
			t.Errorf("%s\n is %+v\nwant %+v", tt.header, got, tt.want)
		}
	}
}

func TestKeptHeaders(t *testing.T) {
	h := http.Header{
		"Vary": {"Accept", "X, *"}, "Cache-Tag": {" a , b", "c\x00d,a"}, "Surrogate-Key": {"b  e"},
		"Content-Type": {"text/plain\x01"}, "Etag": {`"` + strings.Repeat("x", maxKept) + `"`}, "Content-Encoding": {"Identity"},
		"Last-Modified": {"yesterday"}, "Set-Cookie": {"a=b"},
	}
	e, err := entry(h, []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (&cache.Entry{Value: []byte("v"), ContentType: "application/octet-stream", LastModified: "yesterday", Tags: []string{"a", "b", "e"}, NoStore: true}); !reflect.DeepEqual(e, want) {
		t.Errorf("entry %+v, want %+v", e, want)
	}
	for line, want := range map[string]bool{"*": true, " * ": true, "a,*": true, "": false, "a*": false, "Accept, Origin": false} {
		if varies(http.Header{"Vary": {line}}) != want {
			t.Errorf("Vary: %s: want %v", line, want)
		}
	}
}

// Every Cache-Control is read without a panic, into times that make sense, and
// more restrictions never make a value last longer.
func FuzzFreshness(f *testing.F) {
	for _, s := range []string{"", "max-age=60", `a="b,c\"", no-store`, "s-maxage=1,max-age=2", "=,=,\"", "max-age=\"", "stale-if-error=999999999999999"} {
		f.Add(s, "7", "0")
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, control, age, expires string) {
		h := http.Header{"Cache-Control": {control}, "Age": {age}, "Expires": {expires}}
		got := freshness(h, now)
		for _, d := range []time.Duration{got.TTL, got.StaleWhileRevalidate, got.StaleIfError} {
			if d != -1 && (d < 0 || d > maxSeconds*time.Second || d%time.Second != 0) {
				t.Fatalf("%q: %+v", control, got)
			}
		}
		if got.Age < 0 || got.Age > maxSeconds*time.Second {
			t.Fatalf("age %q: %v", age, got.Age)
		}
		h.Add("Cache-Control", "no-store, max-age=0, s-maxage=0")
		if more := freshness(h, now); !more.NoStore || more.TTL != 0 || got.MustRevalidate && !more.MustRevalidate {
			t.Fatalf("%q and no-store, max-age=0: %+v", control, more)
		}
	})
}

// Whatever bytes an endpoint sends, a load ends and counts one request. It is a
// value only if net/http reads the same value and nothing behind it.
func FuzzAnswer(f *testing.F) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, s := range []string{
		"", "x", ok, ok + "\r\n", ok + "\r\nhello", ok + "Content-Length: 5\r\n\r\nhello", ok + "Content-Length: 5\r\n\r\nhello!",
		ok + "Content-Length: 5\r\n\r\nhell", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
		ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n", "HTTP/1.1 103 X\r\n\r\n" + ok + "Content-Length: 1\r\n\r\na",
		"HTTP/1.0 200 OK\r\n\r\nold", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n",
		ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	cfg := balance.DefaultConfig()
	cfg.Name = "fuzz"
	cfg.Endpoints = []balance.EndpointConfig{{Name: "a", URL: "http://a.test", Weight: 1}}
	pool, err := balance.New(cfg, nil)
	if err != nil {
		f.Fatal(err)
	}
	defer pool.Close()
	var answer []byte
	o, err := New(Options{Pool: pool, Config: DefaultConfig(), Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			if _, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
				there.Write(answer) // fails after the load has given up
			}
		}()
		return here, nil
	}})
	if err != nil {
		f.Fatal(err)
	}
	g, err := o.Group("/{key}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		answer = b
		o.client.close() // so each answer has a new connection
		l := &cache.Load{Key: cache.Key{Group: "g", Key: "k"}, Previous: &cache.Entry{OriginETag: `"v"`}}
		loaded, err := g.Load(t.Context(), l)
		if l.Sent.Load() != 1 || pool.Status().Endpoints[0].InFlight != 0 {
			t.Fatalf("sent %d, in flight %+v", l.Sent.Load(), pool.Status())
		}
		if err != nil {
			if _, ok := err.(*cache.Error); !ok {
				t.Fatalf("error %v is not one of package cache", err)
			}
			return
		}
		if loaded.NotModified || loaded.Entry.Negative {
			return
		}
		rest := bufio.NewReader(bytes.NewReader(b))
		for {
			resp, err := http.ReadResponse(rest, get)
			if err != nil {
				t.Fatalf("%q is no answer, and loaded as %q: %v", b, loaded.Entry.Value, err)
			}
			if resp.StatusCode < 200 {
				continue
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || !bytes.Equal(body, loaded.Entry.Value) || rest.Buffered() > 0 {
				t.Fatalf("%q loaded as %q, is %d %q, %v, and %d bytes more", b, loaded.Entry.Value, resp.StatusCode, body, err, rest.Buffered())
			}
			return
		}
	})
}
