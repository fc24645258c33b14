package httpapi

import (
	"strconv"
	"unicode/utf8"
)

// plainJSON has the bytes that need no escape in a JSON string.
var plainJSON = func() (plain [256]bool) {
	for c := range plain {
		plain[c] = c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
	}
	return plain
}()

// appendJSONText appends s as the inside of a JSON string, like package json
// without HTML escapes: bytes that are not UTF-8 become U+FFFD, and the two line
// ends that only JavaScript has are escaped.
func appendJSONText[T string | []byte](out []byte, s T) []byte {
	const hex = "0123456789abcdef"
	done := 0 // s up to here is in out
	for i := 0; i < len(s); {
		c := s[i]
		if plainJSON[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			out = append(out, s[done:i]...)
			switch c {
			case '"', '\\':
				out = append(out, '\\', c)
			case '\b':
				out = append(out, `\b`...)
			case '\f':
				out = append(out, `\f`...)
			case '\n':
				out = append(out, `\n`...)
			case '\r':
				out = append(out, `\r`...)
			case '\t':
				out = append(out, `\t`...)
			default:
				out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			done = i
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		switch {
		case r == utf8.RuneError && n == 1:
			out = append(append(out, s[done:i]...), `\ufffd`...)
			done = i + n
		case r == '\u2028' || r == '\u2029':
			out = append(append(out, s[done:i]...), '\\', 'u', '2', '0', '2', hex[r&15])
			done = i + n
		}
		i += n
	}
	return append(out, s[done:]...)
}

// exactJSON refuses bytes that are not UTF-8, and escapes of half a surrogate
// pair. Package json would silently replace them by U+FFFD, and two keys that
// differ would become one.
func exactJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errBadRequest.With("the body is not UTF-8")
	}
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(body[i:])
		switch {
		case !ok:
			i++ // another escape, of one character
		case unit < 0xd800 || unit > 0xdfff:
			i += 5
		default:
			low, ok := escapedUnit(body[i+6:])
			if unit > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
				return errBadRequest.With("the body has half a surrogate pair")
			}
			i += 11
		}
	}
	return nil
}

// escapedUnit reads \uXXXX at the start of b.
func escapedUnit(b []byte) (unit uint64, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return unit, err == nil
}
