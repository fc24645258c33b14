package consistenthash_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kring/consistenthash"
)

// scheme is a way to name the members of a cluster.
type scheme struct {
	name    string
	members func(n int) []string
}

func schemes() []scheme {
	return []scheme{
		{"http://localhost:80NN", func(n int) []string { return named("http://localhost:%d", 8000, n) }},
		{"cache-N", func(n int) []string { return named("cache-%d", 1, n) }},
		{"10.x.y.z:p", func(n int) []string {
			members := make([]string, n)
			for i := range members {
				members[i] = fmt.Sprintf("10.%d.%d.%d:8000", i%4, i/4%16, i*37%256)
			}
			return members
		}},
		{"N", func(n int) []string { return named("%d", 1, n) }},
		{"pod-N.svc", func(n int) []string { return named("pod-%d.svc", 0, n) }},
	}
}

// TestBalance bounds the load of the fullest member divided by the mean. A
// truly random hash would be at about 1.05 on average with up to 10 members,
// and at 1.12 with 100. -v prints the table.
func TestBalance(t *testing.T) {
	const count = 200_000
	for _, shape := range []struct {
		name  string
		keys  []string
		sizes []int
	}{
		{"user:N", named("user:%d", 0, count), []int{2, 3, 4, 5, 7, 10, 100}},
		{"/api/v1/items/N.json", named("/api/v1/items/%08d.json", 7_000_000, count), []int{10, 100}},
	} {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			var few, many []float64
			table := &strings.Builder{}
			fmt.Fprintf(table, "max/mean of %d keys, 512 points a member\n%-22s", count, "members")
			for _, size := range shape.sizes {
				fmt.Fprintf(table, "%7d", size)
			}
			for _, scheme := range schemes() {
				fmt.Fprintf(table, "\n%-22s", scheme.name)
				for _, size := range shape.sizes {
					ratio := maxOverMean(scheme.members(size), shape.keys)
					fmt.Fprintf(table, "%7.3f", ratio)
					if size <= 10 {
						few = append(few, ratio)
					} else {
						many = append(many, ratio)
					}
				}
			}
			t.Log(table.String())
			expectBalanced(t, "up to 10 members", few, 1.08, 1.15)
			expectBalanced(t, "100 members", many, 1.14, 1.24)
		})
	}
}

func maxOverMean(members, keys []string) float64 {
	ring := consistenthash.New(512, nil)
	ring.Add(members...)
	loads := map[string]int{}
	for _, key := range keys {
		loads[ring.Get(key)]++
	}
	greatest := 0
	for _, load := range loads {
		greatest = max(greatest, load)
	}
	return float64(greatest) * float64(len(members)) / float64(len(keys))
}

func expectBalanced(t *testing.T, what string, ratios []float64, meanLimit, worstLimit float64) {
	t.Helper()
	sum := 0.0
	for _, ratio := range ratios {
		sum += ratio
	}
	mean, worst := sum/float64(len(ratios)), slices.Max(ratios)
	t.Logf("%s: max/mean is %.3f on average, %.3f at worst", what, mean, worst)
	if mean > meanLimit || worst > worstLimit {
		t.Errorf("%s: max/mean is %.3f on average and %.3f at worst, limits are %v and %v", what, mean, worst, meanLimit, worstLimit)
	}
}

// TestWeightsAreShares: a member of weight w gets w parts of the circle, within
// the chance of its points.
func TestWeightsAreShares(t *testing.T) {
	ring := consistenthash.New(512, nil)
	weights := map[string]int{"kring-1": 1, "kring-2": 2, "kring-3": 5}
	for member, weight := range weights {
		ring.AddWeighted(member, weight)
	}
	for member, share := range ring.Shares() {
		if got := share * 8 / float64(weights[member]); got < 0.85 || got > 1.15 {
			t.Errorf("%s has %.3f of the circle, %.2f times what its weight %d of 8 asks for", member, share, got, weights[member])
		}
	}
}
