package consistenthash

import (
	"fmt"
	"slices"
)

// Points returns the positions of all points in ascending order, each with its
// member, so that a test can search the ring in another way.
func Points(m *Map) (positions []uint32, members []string) {
	r := m.ring.Load()
	for _, p := range r.points {
		positions = append(positions, p.position())
		members = append(members, r.members[p.member()])
	}
	return positions, members
}

// CheckInvariants returns what is wrong with the ring as it is stored.
func CheckInvariants(m *Map) error {
	r := m.ring.Load()
	if !slices.IsSorted(r.members) || len(slices.Compact(slices.Clone(r.members))) != len(r.members) {
		return fmt.Errorf("members are not in ascending order or not distinct: %q", r.members)
	}
	if !slices.IsSorted(r.points) {
		return fmt.Errorf("points are not in ascending order")
	}
	perMember := make([]int, len(r.members))
	for _, p := range r.points {
		perMember[p.member()]++
	}
	for number, points := range perMember {
		if points == 0 || points%m.replicas != 0 {
			return fmt.Errorf("member %q has %d points, not a multiple of %d", r.members[number], points, m.replicas)
		}
	}
	if buckets := len(r.table) - 1; buckets != 1<<(32-r.shift) || buckets < len(r.points) {
		return fmt.Errorf("%d buckets at shift %d for %d points", buckets, r.shift, len(r.points))
	}
	for b, first := range r.table {
		before := func(p point) bool { return int(p.position()>>r.shift) < b }
		if first > 0 && !before(r.points[first-1]) {
			return fmt.Errorf("bucket %d starts at point %d, after one of its own", b, first)
		}
		if int(first) < len(r.points) && before(r.points[first]) {
			return fmt.Errorf("bucket %d starts at point %d, which lies before it", b, first)
		}
	}
	return nil
}
