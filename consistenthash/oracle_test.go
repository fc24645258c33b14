package consistenthash_test

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"testing"

	groupcache "github.com/golang/groupcache/consistenthash"

	"kring/consistenthash"
)

// The oracle differs from this ring in one point. A position that points of
// several members share belongs there to the member added last, and here to the
// smaller name. So both agree on every key, shared positions included, if
// groupcache gets the names in descending order. In any other order
// groupcache's owner is one of the members that share the key's position, and
// this ring's owner is the smallest of them.

func fnv32a(data []byte) uint32 {
	h := fnv.New32a()
	h.Write(data)
	return h.Sum32()
}

func FuzzGroupcacheIsTheOracle(f *testing.F) {
	f.Add("http://10.0.0.1:8000\nhttp://10.0.0.2:8000\nhttp://10.0.0.3:8000", "user:1\nuser:2\nuser:3", uint8(49), false)
	f.Add("1\n11\n111\n2\n0", "11\n1\n\nx", uint8(119), false)
	f.Add("Bob\nBill\nBonny", "Ben\nBecky\nBobby", uint8(0), true)
	f.Add("a", "", uint8(159), true)
	f.Fuzz(func(t *testing.T, members, keys string, replicas uint8, another bool) {
		hash := consistenthash.Hash(consistenthash.PlainCRC32)
		if another {
			hash = fnv32a
		}
		compareWithGroupcache(t, int(replicas)+1, hash, distinctLines(members), strings.Split(keys, "\n"))
	})
}

// distinctLines drops the empty name, which is a member in groupcache but not
// in this ring, and everything beyond 40 members.
func distinctLines(text string) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && !slices.Contains(lines, line) && len(lines) < 40 {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestGroupcacheIsTheOracle(t *testing.T) {
	keys := named("user:%d", 0, 5000)
	for _, scheme := range schemes() {
		t.Run(scheme.name, func(t *testing.T) {
			compareWithGroupcache(t, 160, consistenthash.PlainCRC32, scheme.members(50), keys)
		})
	}
}

func compareWithGroupcache(t *testing.T, replicas int, hash consistenthash.Hash, members, keys []string) {
	t.Helper()
	ring := consistenthash.New(replicas, hash)
	ring.Add(members...)

	descending := slices.Sorted(slices.Values(members))
	slices.Reverse(descending)
	exact := groupcache.New(replicas, groupcache.Hash(hash))
	exact.Add(descending...)

	asGiven := groupcache.New(replicas, groupcache.Hash(hash))
	asGiven.Add(members...)
	claims, positions := claimants(replicas, hash, descending)

	for _, key := range keys {
		got := ring.Get(key)
		if want := exact.Get(key); got != want {
			t.Errorf("owner of %q is %q, groupcache with the names in descending order says %q", key, got, want)
		}
		if len(members) == 0 {
			continue
		}
		i, _ := slices.BinarySearch(positions, hash([]byte(key)))
		sharing := claims[positions[i%len(positions)]]
		if want := asGiven.Get(key); got != slices.Min(sharing) || !slices.Contains(sharing, want) {
			t.Errorf("owner of %q is %q, groupcache says %q, its position belongs to %q", key, got, want, sharing)
		}
	}
}

// claimants returns the members that have a point at each position, with
// groupcache's labels, and the positions in ascending order.
func claimants(replicas int, hash consistenthash.Hash, members []string) (map[uint32][]string, []uint32) {
	claims := map[uint32][]string{}
	var positions []uint32
	for _, member := range members {
		for i := range replicas {
			position := hash([]byte(strconv.Itoa(i) + member))
			claims[position] = append(claims[position], member)
			positions = append(positions, position)
		}
	}
	slices.Sort(positions)
	return claims, slices.Compact(positions)
}
