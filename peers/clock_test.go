package peers

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"kring/cache"
	"kring/link"
)

// Nothing on the link is a time of day. A node whose clock is an hour off, or
// jumps by one, sends the same bytes, and its entries are as old at the other
// end as they are here.
func TestAgesAndDeadlinesTravelAsDurations(t *testing.T) {
	here := time.Now()
	for name, there := range map[string]time.Time{
		"an hour ahead":  here.Add(time.Hour),
		"an hour behind": here.Add(-time.Hour),
		"ten years off":  here.Add(87600 * time.Hour).Round(0),
	} {
		entry := func(now time.Time) *cache.Entry {
			return &cache.Entry{
				Value: []byte("v"), Born: now.Add(-20 * time.Second), Expires: now.Add(40 * time.Second),
				StaleWhileRevalidate: time.Second, StaleIfError: time.Hour,
			}
		}
		sent := appendEntry(nil, entry(there), there)
		if !bytes.Equal(sent, appendEntry(nil, entry(here), here)) {
			t.Errorf("%s: the sender's clock is in the bytes", name)
		}
		d := decoder{Decoder: link.Decoder{B: sent}}
		got, _ := d.entry(100, here)
		if err := d.End(); err != nil {
			t.Fatal(err)
		}
		if got.Age(here) != 20*time.Second || got.Left(here) != 40*time.Second || !got.Fresh(here) {
			t.Errorf("%s: arrives at the age of %v with %v left", name, got.Age(here), got.Left(here))
		}
		if !strings.Contains(got.Born.String(), " m=") {
			t.Errorf("%s: the age is not on this node's monotonic clock: %v", name, got.Born)
		}
	}
}
