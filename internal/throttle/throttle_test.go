package throttle_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kring/internal/throttle"
)

func TestALineIsDueWhenItIsNewAndOnceInAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := throttle.New[string](0)
		wants := func(key string, interval time.Duration, skipped int, due bool) {
			t.Helper()
			if gotSkipped, gotDue := l.Due(key, interval); gotSkipped != skipped || gotDue != due {
				t.Errorf("%s: due %v after %d were skipped; want %v after %d", key, gotDue, gotSkipped, due, skipped)
			}
		}
		wants("a", time.Minute, 0, true)
		wants("a", time.Minute, 0, false)
		wants("a", time.Minute, 0, false)
		wants("b", throttle.Once, 0, true)
		time.Sleep(time.Minute)
		wants("a", time.Minute, 2, true)
		wants("a", time.Minute, 0, false)
		time.Sleep(10 * 365 * 24 * time.Hour)
		wants("b", throttle.Once, 0, false)
		l.Forget("b")
		wants("b", throttle.Once, 0, true)
	})
}

// However many keys there are, memory is bounded and each line is either due or
// counted by one that is.
func TestNoLineIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 256
		l := throttle.New[string](most)
		logged, counted, all := 0, 0, 0
		say := func(key string) {
			all++
			if skipped, due := l.Due(key, time.Minute); due {
				logged++
				counted += skipped
			}
		}
		for range 3 {
			for i := range most + 50 {
				say(fmt.Sprint(i))
			}
		}
		if logged != most || l.Len() != most {
			t.Errorf("%d logged, %d remembered; want %d", logged, l.Len(), most)
		}
		time.Sleep(time.Minute)
		say("another")
		if want := all - most - 1; counted != want {
			t.Errorf("%d of %d lines are counted as skipped, want %d", counted, all, want)
		}
		if l.Len() > most {
			t.Errorf("%d lines are remembered", l.Len())
		}
	})
}
