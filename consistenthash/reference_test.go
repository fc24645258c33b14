package consistenthash_test

import (
	"slices"
	"strconv"

	"kring/consistenthash"
)

// reference is a ring by its definition: without table or snapshot, it looks at
// every point for every key. Its labels are groupcache's.
type reference struct {
	replicas int
	hash     consistenthash.Hash
	weights  map[string]int
}

// walk returns the distinct members in the order of their points from the
// position on. Where points coincide the smaller name is first.
func (r reference) walk(position uint32) []string {
	type met struct {
		distance uint32
		member   string
	}
	var nearest []met
	for member, weight := range r.weights {
		best := met{^uint32(0), member}
		for i := range r.replicas * weight {
			// Unsigned subtraction goes round the circle by itself.
			best.distance = min(best.distance, r.hash([]byte(strconv.Itoa(i)+member))-position)
		}
		nearest = append(nearest, best)
	}
	slices.SortFunc(nearest, func(a, b met) int {
		switch {
		case a.distance < b.distance, a.distance == b.distance && a.member < b.member:
			return -1
		default:
			return 1
		}
	})
	var members []string
	for _, m := range nearest {
		members = append(members, m.member)
	}
	return members
}
