package cache_test

import (
	"strings"
	"testing"

	"kring/cache"
)

// A jump of the wall clock makes no entry expire early or late. The times of an entry
// have a monotonic reading. Package time prefers it when it compares two times, and a
// change of the clock does not touch it. Nothing subtracts an origin's Date or
// Last-Modified from it.
func TestAgesAreOnTheMonotonicClock(t *testing.T) {
	f := setup(t)
	aged := cache.Freshness{TTL: 20 * second, Age: 7 * second}
	f.origin.set(0, saying(aged))
	born := map[string]*cache.Entry{
		"a load":        f.get(doc("loaded")).Entry,
		"a hit":         f.get(doc("loaded")).Entry,
		"a put":         f.put(kv("put"), "v").Entry,
		"what was put":  f.get(kv("put")).Entry,
		"nothing there": f.get(kv("missing")).Entry,
	}
	f.origin.set(0, missing)
	born["a missing key"] = f.get(doc("missing")).Entry
	for what, e := range born {
		if !strings.Contains(e.Born.String(), " m=") {
			t.Errorf("%s was born at %v, which moves with the wall clock", what, e.Born)
		}
		if !e.Forever() && !strings.Contains(e.Expires.String(), " m=") {
			t.Errorf("%s expires at %v, which moves with the wall clock", what, e.Expires)
		}
	}
}
