package origin

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// With any number of reasons the memory is bounded, and each failure is either
// logged or counted in a line.
func TestNoFailureIsForgotten(t *testing.T) {
	f := newFailures(slog.New(slog.DiscardHandler), "test")
	now := time.Now()
	logged, counted, all := 0, 0, 0
	fail := func(detail string) {
		all++
		if more, ok := f.new(reason{detail: detail}, now); ok {
			logged++
			counted += more
		}
	}
	for range 3 {
		for i := range maxReasons + 50 {
			fail(fmt.Sprint(i))
		}
	}
	if logged != maxReasons || len(f.reasons) != maxReasons {
		t.Errorf("%d logged, %d remembered; want %d", logged, len(f.reasons), maxReasons)
	}
	now = now.Add(logAgain)
	fail("another")
	if want := all - maxReasons - 1; counted != want {
		t.Errorf("%d of %d failures are told of as not logged, want %d", counted, all, want)
	}
	if len(f.reasons) > maxReasons {
		t.Errorf("%d reasons are remembered", len(f.reasons))
	}
}
