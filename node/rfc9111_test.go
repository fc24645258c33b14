package node_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kring/node"
	"kring/node/nodetest"
)

// The effect of a second get of a key after the first one's answer.
const (
	reused      = "is answered from the store"
	askedAgain  = "asks the origin as if nothing were stored"
	revalidated = "asks the origin whether the value is still good"
)

// The whole node reads an origin's answers as the standards say. The rows are
// the checks of the suite http-tests/cache-tests for a shared cache, as far as
// an origin can send the headers and a status is a value's. The group allows no
// stale values, so the second get shows what the node thinks of the first
// answer.
func TestAnOriginsHeadersAreReadAsTheStandardsSay(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	const etag, modified = `ETag: "v"`, "Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT"
	on := func(dates string, lines ...string) []string { return append([]string{"Date: " + dates}, lines...) }
	now := date(0)
	rows := []struct {
		name   string
		lines  []string
		status int // 0: 200
		second string
		why    string // the reason where Kring differs on purpose
	}{
		{name: "an age that is no number is ignored", lines: []string{"Cache-Control: max-age=3600", "Age: abc"}, second: reused},
		{name: "a negative age is ignored", lines: []string{"Cache-Control: max-age=3600", "Age: -7200"}, second: reused},
		{name: "an age with a fraction is ignored", lines: []string{"Cache-Control: max-age=3600", "Age: 7200.0"}, second: reused},
		{name: "an age with a parameter is ignored", lines: []string{"Cache-Control: max-age=3600", "Age: 7200;foo=bar"}, second: reused},
		{name: "an age above the lifetime", lines: []string{"Cache-Control: max-age=3600", "Age: 7200"}, second: askedAgain},
		{name: "an age of 2^31 - 1", lines: []string{"Cache-Control: max-age=3600", "Age: 2147483647"}, second: askedAgain},
		{name: "an age of 2^31", lines: []string{"Cache-Control: max-age=3600", "Age: 2147483648"}, second: askedAgain},
		{name: "an age above 2^64", lines: []string{"Cache-Control: max-age=3600", "Age: 99999999999999999999"}, second: askedAgain},
		{name: "the first of two ages is old", lines: []string{"Cache-Control: max-age=3600", "Age: 7200, 0"}, second: askedAgain},
		{name: "the first of two ages is new", lines: []string{"Cache-Control: max-age=3600", "Age: 0, 7200"}, second: reused},
		{name: "the first of two lines of ages is old", lines: []string{"Cache-Control: max-age=3600", "Age: 7200", "Age: 0"}, second: askedAgain},
		{name: "the first of two lines of ages is new", lines: []string{"Cache-Control: max-age=3600", "Age: 0", "Age: 7200"}, second: reused},
		{name: "an age twice, below the lifetime", lines: []string{"Cache-Control: max-age=10000", "Age: 3600", "Age: 3600"}, second: reused},

		{name: "a time to come", lines: on(now, "Expires: "+date(time.Hour)), second: reused},
		{name: "a time that is past", lines: on(now, "Expires: "+date(-time.Hour)), second: askedAgain},
		{name: "the time that it is", lines: on(now, "Expires: "+now), second: askedAgain},
		{name: "a time before the date, both ahead", lines: on(date(400*time.Second), "Expires: "+date(300*time.Second)), second: askedAgain},
		{name: "a time after the date, both past", lines: on(date(-2*time.Hour), "Expires: "+date(-time.Hour)), second: reused, why: "only their distance counts: clocks may be wrong"},
		{name: "a time beside a date that is none", lines: on("foo", "Expires: "+date(time.Hour)), second: reused},
		{name: "an age above what is left, by a slow clock", lines: on(date(-10*time.Second), "Expires: "+date(10*time.Second), "Age: 25"), second: askedAgain},
		{name: "an age above what is left, by a fast clock", lines: on(date(10*time.Second), "Expires: "+date(20*time.Second), "Age: 15"), second: askedAgain},
		{name: "a time above 32 bits", lines: on(now, "Expires: Sun, 21 Nov 2286 04:46:39 GMT"), second: reused},
		{name: "a time of RFC 850", lines: on(now, "Expires: Thursday, 18-Aug-50 02:01:18 GMT"), second: reused},
		{name: "a time of asctime()", lines: on(now, "Expires: Thu Aug  8 02:01:18 2050"), second: reused},
		{name: "a weekday in capitals", lines: on(now, "Expires: THU, 18 Aug 2050 02:01:18 GMT"), second: reused},
		{name: "a month in capitals", lines: on(now, "Expires: Thu, 18 AUG 2050 02:01:18 GMT"), second: reused},
		{name: "a zone in small letters", lines: on(now, "Expires: Thu, 18 Aug 2050 02:01:18 gmt"), second: reused},
		{name: "the zone UTC", lines: on(now, "Expires: Thu, 18 Aug 2050 02:01:18 UTC"), second: askedAgain},
		{name: "another zone", lines: on(now, "Expires: Thu, 18 Aug 2050 02:01:18 AEST"), second: askedAgain},
		{name: "a year of two digits", lines: on(now, "Expires: Thu, 18 Aug 50 02:01:18 GMT"), second: askedAgain},
		{name: "no comma", lines: on(now, "Expires: Thu 18 Aug 2050 02:01:18 GMT"), second: askedAgain},
		{name: "several spaces", lines: on(now, "Expires: Thu, 18  Aug  2050 02:01:18 GMT"), second: askedAgain},
		{name: "dashes in a date", lines: on(now, "Expires: Thu, 18-Aug-2050 02:01:18 GMT"), second: askedAgain},
		{name: "points in a time", lines: on(now, "Expires: Thu, 18 Aug 2050 02.01.18 GMT"), second: askedAgain},
		{name: "an hour of one digit", lines: on(now, "Expires: Thu, 18 Aug 2050 2:01:18 GMT"), second: askedAgain},
		{name: "Expires: 0", lines: on(now, "Expires: 0"), second: askedAgain},
		{name: "Expires: -1", lines: on(now, "Expires: -1"), second: askedAgain},
		{name: "two lines of Expires", lines: on(now, "Expires: "+date(time.Hour), "Expires: "+date(time.Hour)), second: askedAgain, why: "RFC 9111 §4.2.1 allows the first as well"},

		{name: "max-age", lines: []string{"Cache-Control: max-age=3600"}, second: reused},
		{name: "max-age=0", lines: []string{"Cache-Control: max-age=0"}, second: askedAgain},
		{name: "max-age=0 and a time to come", lines: on(now, "Cache-Control: max-age=0", "Expires: "+date(time.Hour)), second: askedAgain},
		{name: "max-age and a time that is past", lines: on(now, "Cache-Control: max-age=3600", "Expires: "+date(-time.Hour)), second: reused},
		{name: "max-age and a time that is none", lines: on(now, "Cache-Control: max-age=3600", "Expires: 0"), second: reused},
		{name: "max-age of an answer with an old date", lines: on(date(-2*time.Hour), "Cache-Control: max-age=3600"), second: reused, why: "apparent_age is optional, and clocks may be wrong"},
		{name: "max-age of 2^31 + 1", lines: []string{"Cache-Control: max-age=2147483649"}, second: reused},
		{name: "max-age above 2^64", lines: []string{"Cache-Control: max-age=99999999999999999999"}, second: reused},
		{name: "max-age in mixed case", lines: []string{"Cache-Control: MaX-aGe=3600"}, second: reused},
		{name: "max-age among others", lines: []string{"Cache-Control: foobar, max-age=3600, x=y"}, second: reused},
		{name: "a negative max-age", lines: []string{"Cache-Control: max-age=-3600"}, second: askedAgain},
		{name: "max-age with leading zeros", lines: []string{"Cache-Control: max-age=003600"}, second: reused},
		{name: "max-age in quotes", lines: []string{`Cache-Control: max-age="3600"`}, second: reused},
		{name: "max-age in single quotes", lines: []string{"Cache-Control: max-age='3600'"}, second: askedAgain},
		{name: "max-age with a fraction", lines: []string{"Cache-Control: max-age=3600.0"}, second: askedAgain},
		{name: "max-age with a letter", lines: []string{"Cache-Control: max-age=3600a"}, second: askedAgain},
		{name: "max-age without a value", lines: []string{"Cache-Control: max-age"}, second: askedAgain},
		{name: "max-age with a space before its sign", lines: []string{"Cache-Control: max-age =3600"}, second: reused, why: "it can be read in one way only"},
		{name: "a max-age in another's quotes, before", lines: []string{`Cache-Control: extension="max-age=3600", max-age=0`}, second: askedAgain},
		{name: "a max-age in another's quotes, after", lines: []string{`Cache-Control: max-age=0, extension="max-age=3600"`}, second: askedAgain},
		{name: "two max-ages, the second over", lines: []string{"Cache-Control: max-age=1800, max-age=0"}, second: askedAgain, why: "the smaller counts; RFC 9111 §4.2.1 allows all from the first down to stale"},
		{name: "two max-ages, the first over", lines: []string{"Cache-Control: max-age=0, max-age=1800"}, second: askedAgain},
		{name: "two lines, the second over", lines: []string{"Cache-Control: max-age=1800", "Cache-Control: max-age=0"}, second: askedAgain, why: "as on one line"},
		{name: "two lines, the first over", lines: []string{"Cache-Control: max-age=0", "Cache-Control: max-age=1800"}, second: askedAgain},
		{name: "s-maxage", lines: []string{"Cache-Control: s-maxage=3600"}, second: reused},
		{name: "a shorter s-maxage", lines: []string{"Cache-Control: max-age=3600, s-maxage=0"}, second: askedAgain},
		{name: "a shorter s-maxage, before", lines: []string{"Cache-Control: s-maxage=0, max-age=3600"}, second: askedAgain},
		{name: "a longer s-maxage", lines: []string{"Cache-Control: max-age=0, s-maxage=3600"}, second: reused},
		{name: "a longer s-maxage on another line", lines: []string{"Cache-Control: max-age=0", "Cache-Control: s-maxage=3600"}, second: reused},
		{name: "s-maxage that is none", lines: []string{"Cache-Control: s-maxage=x, max-age=3600"}, second: askedAgain},
		{name: "s-maxage and an age above it", lines: []string{"Cache-Control: s-maxage=3600", "Age: 7200"}, second: askedAgain},
		{name: "s-maxage and a time that is past", lines: on(now, "Cache-Control: s-maxage=3600", "Expires: "+date(-time.Hour)), second: reused},
		{name: "CDN-Cache-Control", lines: []string{"CDN-Cache-Control: max-age=0", "Cache-Control: max-age=3600"}, second: reused, why: "Kring is not a content delivery network: RFC 9213 is for those in front of it"},

		{name: "private", lines: []string{"Cache-Control: private, max-age=3600"}, second: askedAgain},
		{name: "private for one header", lines: []string{`Cache-Control: private="x", max-age=3600`}, second: askedAgain, why: "taken for private: RFC 9111 §5.2.2.7 allows it"},
		{name: "no-store", lines: []string{"Cache-Control: no-store", etag}, second: askedAgain},
		{name: "no-store in mixed case", lines: []string{"Cache-Control: No-StOrE"}, second: askedAgain},
		{name: "no-store beside lifetimes", lines: on(now, "Cache-Control: max-age=10000, no-store", "Expires: "+date(time.Hour)), second: askedAgain},
		{name: "no-store and must-understand", lines: []string{"Cache-Control: no-store, must-understand, max-age=3600"}, second: askedAgain, why: "Kring does not know must-understand, so no-store counts"},
		{name: "no-cache", lines: on(now, "Cache-Control: max-age=10000, no-cache", "Expires: "+date(time.Hour)), second: askedAgain},
		{name: "no-cache in mixed case", lines: []string{"Cache-Control: max-age=10000, No-CaChE"}, second: askedAgain},
		{name: "no-cache with an entity tag", lines: []string{"Cache-Control: no-cache", etag}, second: revalidated},
		{name: "no-cache with an entity tag and a lifetime", lines: []string{"Cache-Control: max-age=10000, no-cache", etag}, second: revalidated},
		{name: "no-cache for one header", lines: []string{`Cache-Control: no-cache="a", max-age=3600`}, second: askedAgain, why: "taken for no-cache: RFC 9111 §5.2.2.4 allows it"},
		{name: "must-revalidate while fresh", lines: []string{"Cache-Control: max-age=10000, must-revalidate", etag}, second: reused},
		{name: "must-revalidate once stale", lines: []string{"Cache-Control: max-age=0, must-revalidate", etag}, second: revalidated},
		{name: "immutable while fresh", lines: []string{"Cache-Control: max-age=10000, immutable", etag}, second: reused},
		{name: "immutable once stale", lines: []string{"Cache-Control: max-age=0, immutable", etag}, second: revalidated},
		{name: "Pragma in an answer", lines: []string{"Cache-Control: max-age=3600", "Pragma: no-cache"}, second: reused, why: "it is for requests (RFC 9111 §5.4)"},
		{name: "an answer that says nothing", second: reused, why: "the group's ttl is its heuristic"},
		{name: "an answer with a Last-Modified alone", lines: []string{modified}, second: reused, why: "likewise, and not a tenth of its age"},
		{name: "a Content-Disposition", lines: []string{"Content-Disposition: attachment"}, second: reused},
		{name: "a cookie", lines: []string{"Cache-Control: max-age=3600", "Set-Cookie: a=b"}, second: reused, why: "no client's cookie reaches the origin, and the answer's is never passed on"},

		{name: "a stale value with a strong entity tag", lines: []string{"Cache-Control: max-age=0", etag}, second: revalidated},
		{name: "a stale value with a weak entity tag", lines: []string{"Cache-Control: max-age=0", `ETag: W/"v"`}, second: revalidated},
		{name: "a stale value with a Last-Modified", lines: []string{"Cache-Control: max-age=0", modified}, second: revalidated},
		{name: "a stale value with neither", lines: []string{"Cache-Control: max-age=0"}, second: askedAgain},

		{name: "Vary: *", lines: []string{"Cache-Control: max-age=3600", "Vary: *"}, second: askedAgain},
		{name: "Vary: *, *", lines: []string{"Cache-Control: max-age=3600", "Vary: *, *"}, second: askedAgain},
		{name: "two lines of Vary: *", lines: []string{"Cache-Control: max-age=3600", "Vary: *", "Vary: *"}, second: askedAgain},
		{name: "an empty member before *", lines: []string{"Cache-Control: max-age=3600", "Vary: , *"}, second: askedAgain},
		{name: "an empty line before *", lines: []string{"Cache-Control: max-age=3600", "Vary: ", "Vary: *"}, second: askedAgain},
		{name: "* before a name", lines: []string{"Cache-Control: max-age=3600", "Vary: *, Foo"}, second: askedAgain},
		{name: "* after a name", lines: []string{"Cache-Control: max-age=3600", "Vary: Foo, *"}, second: askedAgain},
		{name: "Vary with names", lines: []string{"Cache-Control: max-age=3600", "Vary: Accept-Language, Foo"}, second: reused, why: "all requests to an origin are alike: no client's header is among theirs"},

		{name: "a missing key", status: 404, second: reused},
		{name: "a key that is gone", status: 410, second: reused},
		{name: "a missing key that is over at once", lines: []string{"Cache-Control: max-age=0"}, status: 404, second: askedAgain},
		{name: "a missing key that may not be stored", lines: []string{"Cache-Control: no-store"}, status: 404, second: askedAgain},
		{name: "a redirect with a lifetime", lines: []string{"Cache-Control: max-age=3600", "Location: /x"}, status: 301, second: askedAgain, why: "only 200, 404 and 410 are kept"},
		{name: "a 204 with a lifetime", lines: []string{"Cache-Control: max-age=3600"}, status: 204, second: askedAgain, why: "likewise"},
		{name: "a 403 with a lifetime", lines: []string{"Cache-Control: max-age=3600"}, status: 403, second: askedAgain, why: "likewise; an error is remembered for a second"},
		{name: "a 500 with a lifetime", lines: []string{"Cache-Control: max-age=3600"}, status: 500, second: askedAgain, why: "likewise"},
	}

	c := nodetest.Start(t, 2, func(_ int, cfg *node.Config) {
		g := &cfg.Groups[len(cfg.Groups)-1]
		g.StaleWhileRevalidate, g.StaleIfError, g.Jitter, g.NegativeTTL = 0, 0, 0, time.Hour
		cfg.Pools[0].Health.MaxFails = 0 // failing answers must not eject the endpoint
	})
	var mu sync.Mutex // guards second
	second := map[string]string{}
	c.Origin.Answer(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.URL.Path, "/docs/")
		row := rows[mustAtoi(t, strings.SplitN(key, "-", 2)[0])]
		mu.Lock()
		_, again := second[key]
		switch {
		case !again:
			second[key] = reused
		case r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since") != "":
			second[key] = revalidated
		default:
			second[key] = askedAgain
		}
		does := second[key]
		mu.Unlock()
		for _, line := range row.lines {
			name, value, _ := strings.Cut(line, ": ")
			if name == "Date" {
				w.Header().Set(name, value)
				continue
			}
			w.Header().Add(name, value)
		}
		switch {
		case does == revalidated:
			w.WriteHeader(http.StatusNotModified)
		case row.status != 0:
			w.WriteHeader(row.status)
		default:
			_, _ = fmt.Fprint(w, "value") // other checks find a failure
		}
	})
	for i, row := range rows {
		for n, asked := range c.Nodes {
			key := fmt.Sprintf("%d-%d", i, n)
			r := c.Get(asked, docs(key))
			if want := map[int]int{0: 200, 404: 404, 410: 404}[row.status]; want != 0 && r.Status != want || want == 0 && r.Status != http.StatusBadGateway {
				t.Errorf("%s: %d %s", row.name, r.Status, r.Body)
			}
			if r.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s: a cookie is passed on", row.name)
			}
			again := r
			nodetest.Eventually(t, row.name+": the origin's error is forgotten", func() bool {
				again = c.Get(asked, docs(key))
				return !strings.Contains(again.Header.Get("Cache-Status"), "collapsed")
			})
			if again.Status != r.Status || again.Body != r.Body && r.Status == http.StatusOK {
				t.Errorf("%s: first %d %q, then %d %q", row.name, r.Status, r.Body, again.Status, again.Body)
			}
			mu.Lock()
			if got := second[key]; got != row.second {
				t.Errorf("%s %q: a second get %s; want one that %s (%s)", row.name, row.lines, got, row.second, row.why)
			}
			mu.Unlock()
		}
	}
}

func mustAtoi(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Error(err)
	}
	return n
}

// The headers of a 304 replace the stored lifetime, validators and tags on
// every node. The value, its encoding and everything that the 304 leaves out
// stay (RFC 9111 §3.2, §4.3.4).
func TestA304UpdatesWhatIsStored(t *testing.T) {
	c := nodetest.Start(t, 2)
	for i, n := range c.Nodes {
		key := c.KeyOf(c.Nodes[0], i)
		var conditions []string
		var mu sync.Mutex // guards conditions
		c.Origin.Answer(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			conditions = append(conditions, r.Header.Get("If-None-Match")+" "+r.Header.Get("If-Modified-Since"))
			h := w.Header()
			switch len(conditions) {
			case 1:
				h.Set("Cache-Control", "max-age=0, must-revalidate")
				h.Set("ETag", `"v"`)
				h.Set("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")
				h.Set("Content-Type", "text/plain")
				h.Set("Content-Encoding", "br")
				h.Set("Cache-Tag", "old")
				_, _ = fmt.Fprint(w, "value") // other checks find a failure
			case 2:
				h.Set("ETag", `W/"v"`)
				h.Set("Last-Modified", "Thu, 02 Jan 2020 00:00:00 GMT")
				h.Set("Content-Encoding", "gzip")
				h.Set("Cache-Tag", "new")
				w.WriteHeader(http.StatusNotModified)
			default:
				h.Set("Cache-Control", "max-age=3600")
				w.WriteHeader(http.StatusNotModified)
			}
		})
		first := c.Get(n, docs(key))
		c.Get(n, docs(key))
		for range 2 { // once by a 304 with only a lifetime, once from the store
			r := c.Get(n, docs(key))
			if r.Status != http.StatusOK || r.Body != "value" || r.Header.Get("Content-Type") != "text/plain" || r.Header.Get("Content-Encoding") != "br" ||
				r.Header.Get("Last-Modified") != "Thu, 02 Jan 2020 00:00:00 GMT" || r.Header.Get("ETag") != first.Header.Get("ETag") {
				t.Errorf("through %s: %d %q %v", n.ID, r.Status, r.Body, r.Header)
			}
		}
		want := []string{" ", `"v" Wed, 01 Jan 2020 00:00:00 GMT`, `W/"v" Thu, 02 Jan 2020 00:00:00 GMT`}
		mu.Lock()
		if fmt.Sprint(conditions) != fmt.Sprint(want) {
			t.Errorf("the origin was asked with %q, want %q", conditions, want)
		}
		mu.Unlock()
		for _, purge := range []struct {
			tag   string
			loads int
		}{{"old", 3}, {"new", 4}} {
			c.Do(n, http.MethodPost, "/v1/purge/docs", `{"tags":["`+purge.tag+`"]}`)
			c.Get(n, docs(key))
			if got := c.Origin.Loads(key); got != purge.loads {
				t.Errorf("%d loads after a purge of %s, want %d", got, purge.tag, purge.loads)
			}
		}
	}
}
