package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"kring/cache"
)

// evaluate checks the conditions of a GET or HEAD in the order of RFC 9110
// §13.2.2. The status is 200 or 304; the error says that a condition fails. A
// condition by date is ignored if its date cannot be read or the value has none
// (§13.1.3, §13.1.4).
func evaluate(header http.Header, e *cache.Entry, now time.Time) (status int, err error) {
	if header["If-Match"] != nil {
		tags, err := entityTags(header, "If-Match")
		if err != nil {
			return 0, err
		}
		if !slices.Contains(tags, e.ETag) && tags[0] != "*" {
			return 0, cache.ErrPreconditionFailed
		}
	} else if since := header["If-Unmodified-Since"]; since != nil {
		if modified, known := modifiedAfter(e, since, now); known && modified {
			return 0, cache.ErrPreconditionFailed.With("the value was modified after If-Unmodified-Since")
		}
	}
	if header["If-None-Match"] != nil {
		if noneMatch(header, e.ETag) {
			return http.StatusNotModified, nil
		}
	} else if since := header["If-Modified-Since"]; since != nil {
		if modified, known := modifiedAfter(e, since, now); known && !modified {
			return http.StatusNotModified, nil
		}
	}
	return http.StatusOK, nil
}

// modifiedAfter reports whether a value was modified after the date of a
// condition, if both dates are known.
func modifiedAfter(e *cache.Entry, condition []string, now time.Time) (modified, known bool) {
	if len(condition) != 1 || e.LastModified == "" {
		return false, false
	}
	since, ok := cache.ParseDate(condition[0], now)
	if !ok {
		return false, false
	}
	last, ok := cache.ParseDate(e.LastModified, now)
	return last.After(since), ok
}

// noneMatch reports whether an If-None-Match of a GET names etag: then the client
// has the value already. The comparison is weak, as RFC 9110 §13.1.2 asks. The
// rest of a list that cannot be parsed is ignored: to send the value once more is
// never wrong.
func noneMatch(header http.Header, etag string) bool {
	for _, line := range header["If-None-Match"] {
		if line == etag {
			return true
		}
		if strings.TrimSpace(line) == "*" {
			return true
		}
		for rest := line; ; {
			tag, after, ok := nextTag(rest)
			if !ok || tag == "" {
				break
			}
			if strongTag(tag) == etag {
				return true
			}
			rest = after
		}
	}
	return false
}

// conditions reads the conditions of a write into req. No date can be compared,
// because a value that was PUT has none. RFC 9110 §13.1.4 would ignore
// If-Unmodified-Since then, but its client counts on the write's not happening,
// so it is an error. Beside an If-Match it is ignored, as §13.1.4 says, and
// If-Modified-Since always is (§13.1.3).
func conditions(header http.Header, req *cache.Request) (err error) {
	if req.IfMatch, err = entityTags(header, "If-Match"); err != nil {
		return err
	}
	if req.IfNoneMatch, err = entityTags(header, "If-None-Match"); err != nil {
		return err
	}
	for i, tag := range req.IfNoneMatch { // compared weakly (RFC 9110 §13.1.2)
		req.IfNoneMatch[i] = strongTag(tag)
	}
	if len(req.IfMatch) == 0 && len(header["If-Unmodified-Since"]) > 0 {
		return errBadRequest.With("a write cannot check If-Unmodified-Since; use If-Match")
	}
	return nil
}

// unconditional refuses the conditions of a write of many keys: they would have
// to hold for all keys in one step.
func unconditional(header http.Header) error {
	for _, name := range []string{"If-Match", "If-None-Match", "If-Unmodified-Since"} {
		if len(header[name]) > 0 {
			return errBadRequest.With(name + " is for a write of one key")
		}
	}
	return nil
}

// entityTags parses an If-Match or If-None-Match. A list that cannot be parsed is
// an error: a write must not ignore its condition.
func entityTags(header http.Header, name string) ([]string, error) {
	lines := header[name]
	if len(lines) == 0 {
		return nil, nil
	}
	var tags []string
	for _, line := range lines {
		if strings.TrimSpace(line) == "*" {
			if len(lines) > 1 {
				return nil, errBadRequest.With(name + ": * stands alone")
			}
			return []string{"*"}, nil
		}
		for rest := line; ; {
			tag, after, ok := nextTag(rest)
			if !ok {
				return nil, errBadRequest.With(name + " is not a list of entity tags")
			}
			if tag == "" {
				break
			}
			tags = append(tags, tag)
			rest = after
		}
	}
	if len(tags) == 0 {
		return nil, errBadRequest.With(name + " is empty")
	}
	return tags, nil
}

// strongTag is a tag without its W/, for a weak comparison (RFC 9110 §8.8.3.2).
func strongTag(tag string) string { return strings.TrimPrefix(tag, "W/") }

// nextTag takes one entity tag (RFC 9110 §8.8.3), with its quotes and W/, off the
// front of a list with commas. The tag is empty at the end of the list.
func nextTag(s string) (tag, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t,")
	if s == "" {
		return "", "", true
	}
	start := 0
	if strings.HasPrefix(s, "W/") {
		start = 2
	}
	if len(s) == start || s[start] != '"' {
		return "", "", false
	}
	end := start + 1
	for ; ; end++ {
		if end == len(s) {
			return "", "", false
		}
		b := s[end]
		if b == '"' {
			break
		}
		if b != 0x21 && (b < 0x23 || b == 0x7f) {
			return "", "", false
		}
	}
	tag, rest = s[:end+1], strings.TrimLeft(s[end+1:], " \t")
	if rest != "" && rest[0] != ',' {
		return "", "", false
	}
	return tag, rest, true
}

// onlyIfCached reports whether the client wants no load (RFC 9111 §5.2.1.7). The
// other directives of a request's Cache-Control are ignored: they would let a
// client send loads to the origin at will.
func onlyIfCached(header http.Header) bool {
	for _, line := range header["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), "only-if-cached") {
				return true
			}
		}
	}
	return false
}
