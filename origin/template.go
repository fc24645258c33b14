package origin

import (
	"fmt"
	"net/url"
	"strings"

	"kring/cache"
)

// template makes the request target of a key: a path, perhaps with a query,
// with one placeholder for the key.
type template struct {
	before, after string // literal, as in the URL
	keep          *[256]bool
	inQuery       bool
	pathBefore    string // the two decoded, after cut at its query
	pathAfter     string
	dots          bool // they have dots, so that a key without dots may complete a dot segment
}

// The bytes that are not escaped. {key} escapes all but RFC 3986's unreserved
// bytes. {+key} (RFC 6570) also keeps slashes, and the reserved bytes that have
// no second meaning at that place. In a query '&', '=', ';' and '+' mean
// something to most servers; '?', '#' and '%' would mean something anywhere.
const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

var (
	keepSimple   = bytesOf(unreserved)
	keepReserved = bytesOf(unreserved + "/!$&'()*+,;=:@")
	keepInQuery  = bytesOf(unreserved + "/!$'()*,:@")
	keepLiteral  = bytesOf(unreserved + "/!$&'()*+,;=:@?%")
)

func bytesOf(s string) *[256]bool {
	var set [256]bool
	for i := range len(s) {
		set[s[i]] = true
	}
	return &set
}

// parseTemplate reads a path as it is in the configuration: "/docs/{key}",
// "/raw/{+key}", "/search?q={key}".
func parseTemplate(s string) (*template, error) {
	bad := func(why string) (*template, error) { return nil, fmt.Errorf("path %q: %s", s, why) }
	if !strings.HasPrefix(s, "/") {
		return bad("must begin with /")
	}
	if strings.Count(s, "{") != 1 || strings.Count(s, "}") != 1 {
		return bad("must have {key} or {+key} in it, once")
	}
	t := &template{keep: keepSimple}
	var found bool
	if t.before, t.after, found = strings.Cut(s, "{key}"); !found {
		if t.before, t.after, found = strings.Cut(s, "{+key}"); !found {
			return bad("must have {key} or {+key} in it, once")
		}
		t.keep = keepReserved
	}
	t.inQuery = strings.Contains(t.before, "?")
	if t.inQuery && t.keep == keepReserved {
		t.keep = keepInQuery
	}
	for _, part := range []string{t.before, t.after} {
		for i := range len(part) {
			if !keepLiteral[part[i]] {
				return bad(fmt.Sprintf("%q must be percent-encoded", part[i]))
			}
		}
		if _, err := url.PathUnescape(part); err != nil {
			return bad(err.Error())
		}
	}
	pathBefore, _, _ := strings.Cut(t.before, "?")
	pathAfter, _, _ := strings.Cut(t.after, "?")
	if t.inQuery {
		pathAfter = ""
	}
	var err error
	if t.pathBefore, err = url.PathUnescape(pathBefore); err != nil {
		return bad(err.Error())
	}
	if t.pathAfter, err = url.PathUnescape(pathAfter); err != nil {
		return bad(err.Error())
	}
	if t.inQuery && hasDotSegment(t.pathBefore, true) || !t.inQuery && hasDotSegment(t.pathBefore+"k"+t.pathAfter, true) {
		return bad(`must not have "." or ".." as a segment`)
	}
	t.dots = strings.Contains(t.pathBefore+t.pathAfter, ".")
	return t, nil
}

// target is the target in the request line.
func (t *template) target(key string) string {
	var b strings.Builder
	b.Grow(len(t.before) + len(t.after) + len(key) + len(key)/2)
	b.WriteString(t.before)
	for i := range len(key) {
		if c := key[i]; t.keep[c] {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	b.WriteString(t.after)
	return b.String()
}

// check refuses a key that would make a dot segment of the decoded path: a
// server that decodes and then cleans the path would read another key.
func (t *template) check(key string) error {
	if t.inQuery || !t.dots && !strings.Contains(key, ".") {
		return nil
	}
	if hasDotSegment(t.pathBefore+key+t.pathAfter, t.keep[';']) {
		return cache.ErrBadKey.With(`the group's origin cannot be asked for a key with "." or ".." as a segment`)
	}
	return nil
}

// hasDotSegment looks at a decoded path. parameters means that a semicolon in
// it was not escaped: Java's servers cut off parameters (RFC 3986 §3.3) before
// they look for dots.
func hasDotSegment(path string, parameters bool) bool {
	for s := range strings.SplitSeq(path, "/") {
		if parameters {
			s, _, _ = strings.Cut(s, ";")
		}
		if s == "." || s == ".." {
			return true
		}
	}
	return false
}
