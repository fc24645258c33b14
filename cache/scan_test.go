package cache_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"kring/cache"
)

// A scan of ten times the cache, whose keys are cold, evicts almost nothing of the hot
// set.
func TestColdScanLeavesTheHotSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(func(g *cache.GroupConfig) { g.TTL = 0 }), func(o *cache.Options) { o.Config.MaxBytes = 1 << 20 })
		const hot = 500
		ask := func() {
			for i := range hot {
				f.get(doc(fmt.Sprint("hot", i)))
			}
		}
		ask()
		ask()
		size := int(f.Stats().Bytes / hot)
		for i := range 10 << 20 / size {
			f.get(doc(fmt.Sprint("cold", i)))
		}
		before := f.origin.total()
		ask()
		if again := f.origin.total() - before; again > hot/20 {
			t.Errorf("%d of %d hot keys were loaded again", again, hot)
		}
		if s := f.Stats(); s.Bytes > s.MaxBytes || s.Evictions == 0 {
			t.Errorf("%+v", s)
		}
	})
}
