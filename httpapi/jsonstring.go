package httpapi

import "unicode/utf8"

// plainJSON are the bytes that stand for themselves in a JSON string.
var plainJSON = func() (plain [256]bool) {
	for c := range plain {
		plain[c] = c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
	}
	return plain
}()

// appendJSONText appends s as it stands in a JSON string, as package json does
// that was told to leave HTML alone: bytes that are no UTF-8 become U+FFFD, and
// the two line ends of JavaScript that JSON does not know are escaped.
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
