package origin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"kring/cache"
)

// maxSeconds is the value of larger numbers (RFC 9111 §1.2.2).
const maxSeconds = 1 << 31

// freshness reads the freshness of an answer from its headers (RFC 9111 §5.2.2,
// §5.3, RFC 5861). Kring is a shared cache: s-maxage goes before max-age, and
// private means no-store. Ages come only from the Age header, never from a
// comparison of Date with this machine's clock, which may be wrong. now is used
// for an Expires without a Date.
func freshness(h http.Header, now time.Time) cache.Freshness {
	f := cache.Unsaid
	var maxAge, sMaxAge time.Duration = -1, -1
	eachDirective(h.Values("Cache-Control"), func(name, value string) {
		switch name {
		case "no-store", "private":
			f.NoStore = true
		case "no-cache":
			f.NoCache = true
		case "must-revalidate", "proxy-revalidate":
			f.MustRevalidate = true
		case "max-age":
			maxAge = least(maxAge, lifetime(value))
		case "s-maxage":
			sMaxAge = least(sMaxAge, lifetime(value))
		case "stale-while-revalidate":
			f.StaleWhileRevalidate = least(f.StaleWhileRevalidate, lifetime(value))
		case "stale-if-error":
			f.StaleIfError = least(f.StaleIfError, lifetime(value))
		}
	})
	switch {
	case sMaxAge >= 0:
		f.TTL = sMaxAge
		// s-maxage implies proxy-revalidate (RFC 9111 §5.2.2.10), unless the
		// answer says how long it may be stale.
		if f.StaleWhileRevalidate < 0 && f.StaleIfError < 0 {
			f.MustRevalidate = true
		}
	case maxAge >= 0:
		f.TTL = maxAge
	case len(h.Values("Expires")) > 0:
		f.TTL = expires(h, now)
	}
	// An unreadable Age is ignored (§5.1), unlike an unreadable max-age.
	f.Age, _ = seconds(firstMember(h, "Age"))
	return f
}

// firstMember is the first member of a header that should have only one.
// Another cache on the way may have added the rest (RFC 9111 §5.1).
func firstMember(h http.Header, name string) string {
	for _, line := range h.Values(name) {
		for v := range strings.SplitSeq(line, ",") {
			if v = strings.Trim(v, " \t"); v != "" {
				return v
			}
		}
	}
	return ""
}

// expires is the TTL of an Expires header. An unreadable date, above all "0",
// means already expired (RFC 9111 §5.3). So do two headers.
func expires(h http.Header, now time.Time) time.Duration {
	until, ok := date(h, "Expires", now)
	if !ok {
		return 0
	}
	return min(max(0, until.Sub(dated(h, now))), maxSeconds*time.Second)
}

// date reads a header that must be one date.
func date(h http.Header, name string, now time.Time) (t time.Time, ok bool) {
	lines := h.Values(name)
	if len(lines) != 1 {
		return time.Time{}, false
	}
	return cache.ParseDate(strings.Trim(lines[0], " \t"), now)
}

// dated is the time of an answer by its origin's clock, or now if the answer
// has no Date.
func dated(h http.Header, now time.Time) time.Time {
	if t, ok := date(h, "Date", now); ok {
		return t
	}
	return now
}

// lifetime reads the seconds of a directive. An unreadable value is 0: the
// answer is treated as stale (RFC 9111 §4.2.1).
func lifetime(s string) time.Duration {
	d, _ := seconds(s)
	return d
}

// seconds reads a delta-seconds. A number that is too large becomes 2^31 (RFC
// 9111 §1.2.2).
func seconds(s string) (d time.Duration, ok bool) {
	n := int64(0)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = min(n*10+int64(s[i]-'0'), maxSeconds)
	}
	return time.Duration(n) * time.Second, s != ""
}

// least is the smaller value of a directive that occurs twice.
func least(have, d time.Duration) time.Duration {
	if have < 0 {
		return d
	}
	return min(have, d)
}

// eachDirective calls f with each directive of a Cache-Control header: its name
// in lower case, and its value without quotes. Commas inside quotes do not
// separate.
func eachDirective(lines []string, f func(name, value string)) {
	for _, rest := range lines {
		for rest != "" {
			var one string
			one, rest = cutDirective(rest)
			name, value, _ := strings.Cut(one, "=")
			name = strings.ToLower(strings.Trim(name, " \t"))
			value = strings.Trim(value, " \t")
			if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			if name != "" {
				f(name, value)
			}
		}
	}
}

func cutDirective(s string) (one, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case quoted && s[i] == '\\':
			i++
		case !quoted && s[i] == ',':
			return s[:i], s[i+1:]
		}
	}
	if quoted { // the closing quote is missing, and a restriction may follow
		one, rest, _ = strings.Cut(s, ",")
		return one, strings.ReplaceAll(rest, `"`, "")
	}
	return s, ""
}

// varies reports whether an answer depends on more than a key can name (Vary:
// *). All other values of Vary mean nothing here: every request to an origin
// has the same headers, and no client's.
func varies(h http.Header) bool {
	for _, line := range h.Values("Vary") {
		for v := range strings.SplitSeq(line, ",") {
			if strings.Trim(v, " \t") == "*" {
				return true
			}
		}
	}
	return false
}

const (
	// maxTags and maxTagBytes bound the tags of an entry.
	maxTags     = 10_000
	maxTagBytes = 1 << 10
)

// tags reads Cache-Tag (separated by commas) and Surrogate-Key (by spaces),
// each tag once. It copies the tags, because a substring would keep the whole
// header in memory. ok is false if there are more or longer tags than an entry
// keeps. Such an entry must not be stored: a purge would not find it.
func tags(h http.Header) (all []string, ok bool) {
	seen := map[string]bool{}
	add := func(t string) bool {
		t = strings.Trim(t, " \t")
		if t == "" || seen[t] || !httpguts.ValidHeaderFieldValue(t) {
			return true
		}
		if len(t) > maxTagBytes || len(all) == maxTags {
			return false
		}
		t = strings.Clone(t)
		seen[t] = true
		all = append(all, t)
		return true
	}
	for _, line := range h.Values("Cache-Tag") {
		for t := range strings.SplitSeq(line, ",") {
			if !add(t) {
				return nil, false
			}
		}
	}
	for _, line := range h.Values("Surrogate-Key") {
		for t := range strings.FieldsSeq(line) {
			if !add(t) {
				return nil, false
			}
		}
	}
	return slices.Clip(all), true
}

// maxKept bounds a kept header in bytes: it is stored and sent with every copy
// of the entry.
const maxKept = 1024

// kept is a copy of a header's value, or "" if the value cannot be kept.
func kept(h http.Header, name string) string {
	v := strings.Clone(strings.Join(h.Values(name), ", "))
	if len(v) > maxKept || !httpguts.ValidHeaderFieldValue(v) {
		return ""
	}
	return v
}
