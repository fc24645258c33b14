package origin_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"kring/cache"
)

// The bytes that are kept of an answer's head are the bytes that are charged,
// for every kind of head. So the live heap stays within the limit of the
// process.
func TestMemoryOfAnswerHeadsIsCharged(t *testing.T) {
	const large = 60_000
	pad := func(unit string) string { return strings.Repeat(unit, large/len(unit)) }
	for name, head := range map[string]func(i int) string{
		"three tags, again and again": func(i int) string { return "Surrogate-Key: " + pad(fmt.Sprintf("a%d b%d c%d ", i, i, i)) },
		"likewise, with commas":       func(i int) string { return "Cache-Tag: " + pad(fmt.Sprintf("a%d,b%d , c%d,", i, i, i)) },
		"a tag among blanks":          func(i int) string { return "Surrogate-Key: a" + pad(" ") + "b" },
		"a tag that is too long":      func(i int) string { return "Cache-Tag: " + pad("x") },
		"many tags": func(i int) string {
			var b strings.Builder
			for n := range large / 12 {
				fmt.Fprintf(&b, "%x-%x ", i, n)
			}
			return "Surrogate-Key: " + b.String()
		},
		"small types beside a large header": func(i int) string {
			return "Content-Type: text/plain\r\nETag: \"v\"\r\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT\r\nX-Large: " + pad("x")
		},
		"an ETag that is too long": func(i int) string { return "ETag: \"" + pad("x") + "\"" },
		"a type of many lines":     func(i int) string { return pad("Content-Type: text/plain\r\n") + "X: y" },
	} {
		t.Run(name, func(t *testing.T) {
			heads := func(key string) string {
				var i int
				fmt.Sscan(key, &i)
				return head(i)
			}
			l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
				return say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"+heads(r.URL.Path[1:])+"\r\n\r\nv")(c, r, n)
			})
			s := start(t, "/{key}", []string{l.url})
			group := cache.DefaultGroupConfig("docs")
			group.Origin = cache.OriginConfig{Pool: "test", Path: "/{key}"}
			cfg := cache.DefaultConfig()
			cfg.MaxBytes = 16 << 20
			c, err := cache.New(cache.Options{Node: "n", Config: cfg, Groups: []cache.GroupConfig{group}, Loader: s.group})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			docs, err := c.Group("docs")
			if err != nil {
				t.Fatal(err)
			}
			load := func(from, to int) {
				for i := from; i < to; i++ {
					r := docs.Read(fmt.Sprint(i), false)
					if _, err := r.Answer(context.Background(), cache.OwnerTerm); err != nil {
						t.Fatal(err)
					}
				}
			}
			load(0, 10)
			before, charged := liveHeap(), c.Stats().Bytes
			load(10, 150)
			kept, charge := liveHeap()-before, c.Stats().Bytes-charged
			if kept > charge+charge/2+2<<20 { // the heads together are 8 MB
				t.Errorf("%d bytes are kept, %d charged", kept, charge)
			}
		})
	}
}

// liveHeap is the bytes in use after a collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // frees what the finalizers of the first one released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An answer with more tags than an entry keeps could not be purged, so it is
// not stored.
func TestAnAnswerWithTooManyTagsIsNotStored(t *testing.T) {
	list := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%x,", i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name, tags string
		stored     bool
	}{
		{"none", "", true},
		{"as many as are kept", list(10_000), true},
		{"too many", list(10_001), false},
		{"one again and again", strings.Repeat("x,", 20_000), true},
		{"as long as is kept", strings.Repeat("x", 1024), true},
		{"too long", strings.Repeat("x", 1025), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := "200 OK"
			l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
				text := "HTTP/1.1 " + status + "\r\nCache-Tag: " + tt.tags + "\r\n"
				if status[0] != '3' {
					text += "Content-Length: 1\r\n\r\nv"
					return say(text)(c, r, n)
				}
				return say(text+"\r\n")(c, r, n)
			})
			s := start(t, "/{key}", []string{l.url})
			for _, status = range []string{"200 OK", "404 Not Found"} {
				r := s.load(t, "k", nil)
				if r.err != nil || r.Entry.NoStore == tt.stored {
					t.Errorf("%s: %v, NoStore %v", status, r.err, r.Entry != nil && r.Entry.NoStore)
				}
			}
			status = "304 Not Modified"
			r := s.load(t, "k", &cache.Entry{OriginETag: `"v"`})
			if r.err != nil || !r.NotModified || r.Freshness.NoStore == tt.stored {
				t.Errorf("%s: %v, NoStore %v", status, r.err, r.Freshness.NoStore)
			}
		})
	}
}
