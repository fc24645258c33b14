package consistenthash_test

import (
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	groupcache "github.com/golang/groupcache/consistenthash"

	"kring/consistenthash"
)

// sink keeps the compiler from dropping the measured work.
var sink string

// hundred returns a ring of 100 members, and keys to look up.
func hundred() (*consistenthash.Map, []string) {
	ring := consistenthash.New(512, nil)
	ring.Add(named("http://10.0.0.%d:8000", 1, 100)...)
	return ring, named("user:%d", 0, 1<<14)
}

func BenchmarkGet(b *testing.B) {
	ring, keys := hundred()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		sink = ring.Get(keys[i%len(keys)])
	}
}

// BenchmarkSortSearch is the same look-up by sort.Search over the same points.
func BenchmarkSortSearch(b *testing.B) {
	ring, keys := hundred()
	positions, owners := consistenthash.Points(ring)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		sink = searched(ring, positions, owners, keys[i%len(keys)])
	}
}

func searched(ring *consistenthash.Map, positions []uint32, owners []string, key string) string {
	position := ring.Hash(key)
	i := sort.Search(len(positions), func(i int) bool { return positions[i] >= position })
	if i == len(positions) {
		i = 0
	}
	return owners[i]
}

// BenchmarkGetRatio looks up the same keys both ways in turns, so that other
// work of the machine hits both, and reports the median of the ratios. The
// limit is 0.6.
func BenchmarkGetRatio(b *testing.B) {
	ring, keys := hundred()
	positions, owners := consistenthash.Points(ring)
	var ratios []float64
	for b.Loop() {
		start := time.Now()
		for _, key := range keys {
			sink = ring.Get(key)
		}
		table := time.Since(start)
		start = time.Now()
		for _, key := range keys {
			sink = searched(ring, positions, owners, key)
		}
		ratios = append(ratios, float64(table)/float64(time.Since(start)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-sort.Search")
}

func BenchmarkGroupcacheGet(b *testing.B) {
	_, keys := hundred()
	ring := groupcache.New(512, nil)
	ring.Add(named("http://10.0.0.%d:8000", 1, 100)...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		sink = ring.Get(keys[i%len(keys)])
	}
}

func BenchmarkOwners(b *testing.B) {
	ring, keys := hundred()
	for _, n := range []int{2, 3, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				sink = ring.Owners(keys[i%len(keys)], n)[0]
			}
		})
	}
}

// BenchmarkJoin is one member joining 99 and leaving again.
func BenchmarkJoin(b *testing.B) {
	ring, _ := hundred()
	for b.Loop() {
		ring.Remove("http://10.0.0.50:8000")
		ring.Add("http://10.0.0.50:8000")
	}
}
