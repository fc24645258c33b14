package cache_test

import (
	"net/http"
	"testing"
	"time"

	"kring/cache"
)

func TestOnlyDatesAsTheyAreDefinedAreAccepted(t *testing.T) {
	now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	want := time.Date(2050, 8, 8, 2, 1, 18, 0, time.UTC)
	for _, s := range []string{
		"Mon, 08 Aug 2050 02:01:18 GMT",
		"MON, 08 AUG 2050 02:01:18 GMT",
		"mon, 08 aug 2050 02:01:18 gmt",
		"Thu, 08 Aug 2050 02:01:18 GMT", // another day of the week
		"Monday, 08-Aug-50 02:01:18 GMT",
		"monday, 08-aug-50 02:01:18 gMT",
		"Mon Aug  8 02:01:18 2050",
		"MON AUG  8 02:01:18 2050",
	} {
		if got, ok := cache.ParseDate(s, now); !ok || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"", "0", "-1", "2050", "Mon", "Mon,", " ",
		"Mon, 08 Aug 2050 2:01:18 GMT",
		"Mon, 08 Aug 2050 02:1:18 GMT",
		"Mon, 8 Aug 2050 02:01:18 GMT",
		"Mon, 08  Aug 2050 02:01:18 GMT",
		"Mon,  08 Aug 2050 02:01:18 GMT",
		"Mon, 08 Aug 2050  02:01:18 GMT",
		"Mon,08 Aug 2050 02:01:18 GMT",
		" Mon, 08 Aug 2050 02:01:18 GMT",
		"Mon, 08 Aug 2050 02:01:18 GMT ",
		"Mon 08 Aug 2050 02:01:18 GMT",
		"08 Aug 2050 02:01:18 GMT",
		"Xyz, 08 Aug 2050 02:01:18 GMT",
		"Mon, 08 Aug 50 02:01:18 GMT",
		"Mon, 08-Aug-2050 02:01:18 GMT",
		"Mon, 08-Aug-50 02:01:18 GMT",
		"Monday, 08 Aug 2050 02:01:18 GMT",
		"Mon, 08 Aug 2050 02.01.18 GMT",
		"Mon, 08 Aug 2050 02:01 GMT",
		"Mon, 08 Aug 2050 02:01:18",
		"Mon, 08 Aug 2050 02:01:18.5 GMT",
		"Mon, 08 Aug 2050 02:01:18 UTC",
		"Mon, 08 Aug 2050 02:01:18 EST",
		"Mon, 08 Aug 2050 02:01:18 +0000",
		"Monday, 08-Aug-50 02:01:18 EST",
		"Mon, 31 Feb 2050 02:01:18 GMT",
		"Mon, 08 Aug 2050 25:01:18 GMT",
		"Mon, 08 August 2050 02:01:18 GMT",
		"Mon Aug 8 02:01:18 2050",
		"Mon Aug 08 02:01:18 2050",
		"Mon Aug  8 02:01:18 2050 GMT",
		"2050-08-08T02:01:18Z",
		"Mon, 08 Aug 2050 02:01:18 GMT, Mon, 08 Aug 2050 02:01:18 GMT",
	} {
		if got, ok := cache.ParseDate(s, now); ok {
			t.Errorf("%q is %v; want it to be no date", s, got)
		}
	}
	// A year of two digits is at most 50 years ahead (RFC 9110 §5.6.7).
	if got, ok := cache.ParseDate("Wednesday, 01-Jul-68 00:00:00 GMT", time.Date(2001, 7, 1, 0, 0, 0, 0, time.UTC)); !ok || got.Year() != 1968 {
		t.Errorf("in 2001: %v, %v; want the year 1968", got, ok)
	}
	for s, year := range map[string]int{
		"Wednesday, 01-Jul-76 00:00:00 GMT": 2076, "Wednesday, 01-Jul-77 00:00:00 GMT": 1977,
		"Wednesday, 01-Jul-99 00:00:00 GMT": 1999, "Wednesday, 01-Jul-68 00:00:00 GMT": 2068, "Wednesday, 01-Jul-26 00:00:00 GMT": 2026,
	} {
		if got, ok := cache.ParseDate(s, now); !ok || got.Year() != year {
			t.Errorf("%s: %v, %v; want the year %d", s, got, ok, year)
		}
	}
}

// A date that this program or net/http writes is read as the same time.
func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"Mon, 08 Aug 2050 02:01:18 GMT", "Monday, 08-Aug-50 02:01:18 GMT", "Mon Aug  8 02:01:18 2050", "0", "Mon, "} {
		f.Add(s, int64(0))
	}
	now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string, unix int64) {
		if got, ok := cache.ParseDate(s, now); ok {
			// An accepted date is the same time when it is written anew.
			if again, ok := cache.ParseDate(got.Format(http.TimeFormat), now); !ok || !again.Equal(got) {
				t.Fatalf("%q is %v, which is %v", s, got, again)
			}
		}
		want := time.Unix(unix%(1<<36), 0).UTC()
		if y := want.Year(); y < 0 || y > 9999 {
			return
		}
		if got, ok := cache.ParseDate(want.Format(http.TimeFormat), now); !ok || !got.Equal(want) {
			t.Fatalf("%v is %v, %v", want, got, ok)
		}
	})
}
