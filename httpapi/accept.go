package httpapi

import (
	"strconv"
	"strings"
)

// weight is the largest quality (RFC 9110 §12.4.2) that an Accept header gives to
// one of these media types by name. It is 0 if the header names none of them, or
// refuses them. A range of types, like */*, names no type.
func weight(accept []string, mediaTypes ...string) float64 {
	best := 0.0
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			for _, t := range mediaTypes {
				if mediaType(item) == t {
					best = max(best, quality(item))
				}
			}
		}
	}
	return best
}

// quality is the q of one item of an Accept header. It is 1 without a q, and 0 if
// the q cannot be read.
func quality(item string) float64 {
	_, parameters, _ := strings.Cut(item, ";")
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

// mediaType is a Content-Type without its parameters.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
