package cache

import (
	"strings"
	"time"
)

// ParseDate reads an HTTP-date (RFC 9110 §5.6.7) in one of its three forms. It is
// stricter than http.ParseTime: digits, spaces and zone must be exactly as defined,
// because a cache must not use an invalid date (RFC 9111 §5.3). Letters may be of either
// case (§4.2). The day of the week may be a wrong one. A year of two digits is near now.
func ParseDate(s string, now time.Time) (t time.Time, ok bool) {
	s = strings.ToUpper(s)
	name, rest, found := strings.Cut(s, " ")
	if !found {
		return time.Time{}, false
	}
	day, comma := strings.CutSuffix(name, ",")
	short, long := weekday(day)
	switch {
	case comma && short:
		return parseExactly("02 Jan 2006 15:04:05 GMT", rest)
	case comma && long:
		t, ok = parseExactly("02-Jan-06 15:04:05 GMT", rest)
		return century(t, now), ok
	case !comma && short:
		return parseExactly("Jan _2 15:04:05 2006", rest)
	}
	return time.Time{}, false
}

// parseExactly parses only what the layout would write. Package time alone is lenient
// about digits and spaces.
func parseExactly(layout, s string) (time.Time, bool) {
	t, err := time.Parse(layout, s)
	return t, err == nil && strings.ToUpper(t.Format(layout)) == s
}

// century moves a date of a two-digit year into the hundred years that end 50 years from
// now.
func century(t, now time.Time) time.Time {
	for !t.After(now.AddDate(-50, 0, 0)) {
		t = t.AddDate(100, 0, 0)
	}
	for t.After(now.AddDate(50, 0, 0)) {
		t = t.AddDate(-100, 0, 0)
	}
	return t
}

// weekday reports whether s, in upper case, is the short or long name of a day.
func weekday(s string) (short, long bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToUpper(d.String())
		short, long = short || s == name[:3], long || s == name
	}
	return short, long
}
