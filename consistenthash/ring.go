package consistenthash

import (
	"math/bits"
	"slices"
	"sort"
)

// ring is one immutable state of a Map.
type ring struct {
	// members are the names in byte order; a member's number is its index.
	members []string
	// points are in ascending order. Coinciding points are all kept, so that a
	// point appears when the one that hid it is removed.
	points []point
	// table[b] is the index of the first point whose position has b or more in
	// its highest bits, those left by shift. A last entry closes the last
	// bucket. There are at least as many buckets as points, so a look-up
	// inspects about one point, where a binary search inspects log2 of their
	// number.
	table []uint32
	shift uint8
}

// point is a position on the circle in the high 32 bits and a member's number
// in the low 32 bits. So points are ordered by position, then by name.
type point uint64

func newPoint(position uint32, member int) point {
	return point(position)<<32 | point(uint32(member))
}

func (p point) position() uint32 { return uint32(p >> 32) }
func (p point) member() int      { return int(uint32(p)) }

// maxScan is the size up to which a bucket is searched from its start. Fuller
// buckets, which an even hash does not have, are halved first.
const maxScan = 8

// newRing keeps both slices; both must be in ascending order.
func newRing(members []string, points []point) *ring {
	r := &ring{members: members, points: points, shift: 31}
	if len(points) > 2 {
		r.shift = uint8(32 - bits.Len(uint(len(points)-1)))
	}
	buckets := 1 << (32 - r.shift)
	r.table = make([]uint32, buckets+1)
	next := 0
	for i, p := range points {
		for b := int(p.position() >> r.shift); next <= b; next++ {
			r.table[next] = uint32(i)
		}
	}
	for ; next <= buckets; next++ {
		r.table[next] = uint32(len(points))
	}
	return r
}

// with returns the ring without the members that leave and with those that
// join, at the positions of their points.
func (r *ring) with(joining map[string][]uint32, leaving []string) *ring {
	stays := func(member string) bool {
		_, again := joining[member]
		return !again && !slices.Contains(leaving, member)
	}
	members := make([]string, 0, len(r.members)+len(joining))
	for _, member := range r.members {
		if stays(member) {
			members = append(members, member)
		}
	}
	for member := range joining {
		members = append(members, member)
	}
	slices.Sort(members)

	// Numbers follow names, so renumbering keeps the order.
	const removed = -1
	renumbered := make([]int, len(r.members))
	for old, member := range r.members {
		renumbered[old] = removed
		if stays(member) {
			renumbered[old], _ = slices.BinarySearch(members, member)
		}
	}
	kept := make([]point, 0, len(r.points))
	for _, p := range r.points {
		if number := renumbered[p.member()]; number != removed {
			kept = append(kept, newPoint(p.position(), number))
		}
	}

	var added []point
	for number, member := range members {
		for _, position := range joining[member] {
			added = append(added, newPoint(position, number))
		}
	}
	slices.Sort(added)
	return newRing(members, merge(kept, added))
}

// merge returns the points of two ascending slices in ascending order.
func merge(a, b []point) []point {
	merged := make([]point, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// search returns the index of the first point at or after the position. After
// the last point it is the first one. The ring must have points.
func (r *ring) search(position uint32) int {
	bucket := position >> (r.shift & 31)
	first, end := int(r.table[bucket]), int(r.table[bucket+1])
	target := newPoint(position, 0)
	if end-first > maxScan {
		first += sort.Search(end-first, func(i int) bool { return r.points[first+i] >= target })
	}
	for first < end && r.points[first] < target {
		first++
	}
	if first == len(r.points) {
		return 0
	}
	return first
}

func (r *ring) owner(position uint32) string {
	if len(r.points) == 0 {
		return ""
	}
	return r.members[r.points[r.search(position)].member()]
}

func (r *ring) owners(position uint32, n int) []string {
	n = min(n, len(r.members))
	if n < 1 {
		return nil
	}
	// A bit for each member. It is on the stack for usual cluster sizes.
	var few [4]uint64
	seen := few[:]
	if words := (len(r.members) + 63) / 64; words > len(few) {
		seen = make([]uint64, words)
	}
	owners := make([]string, 0, n)
	// Every member has a point, so the walk finds n members within one round.
	for i := r.search(position); len(owners) < n; i++ {
		if i == len(r.points) {
			i = 0
		}
		member := r.points[i].member()
		if bit := uint64(1) << (member % 64); seen[member/64]&bit == 0 {
			seen[member/64] |= bit
			owners = append(owners, r.members[member])
		}
	}
	return owners
}

// shares adds up the arcs that end at each member's points. A point that
// coincides with the one before it has an arc of length 0.
func (r *ring) shares() map[string]float64 {
	const circle = 1 << 32
	shares := make(map[string]float64, len(r.members))
	if len(r.points) == 0 {
		return shares
	}
	owned := make([]uint64, len(r.members))
	before := r.points[0].position()
	for _, p := range r.points {
		owned[p.member()] += uint64(p.position() - before)
		before = p.position()
	}
	owned[r.points[0].member()] += circle - uint64(before-r.points[0].position())
	for number, member := range r.members {
		shares[member] = float64(owned[number]) / circle
	}
	return shares
}
