package consistenthash_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"kring/consistenthash"
)

// number is a hash with plain values: the text read as a decimal number. The
// points of member "6" are 6, 16, 26, …
func number(data []byte) uint32 {
	n, err := strconv.ParseUint(string(data), 10, 32)
	if err != nil {
		panic(err)
	}
	return uint32(n)
}

// named returns count names in this format, from start on.
func named(format string, start, count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf(format, start+i)
	}
	return names
}

func TestKeyBelongsToTheFirstPointAtOrAfterIt(t *testing.T) {
	ring := consistenthash.New(3, number)
	ring.Add("6", "4", "2") // 2 4 6 12 14 16 22 24 26
	expectOwners(t, ring, map[string]string{"2": "2", "3": "4", "11": "2", "23": "4", "26": "6", "27": "2", "0": "2"})

	ring.Add("8") // 8 18 28
	expectOwners(t, ring, map[string]string{"2": "2", "7": "8", "11": "2", "23": "4", "27": "8", "29": "2"})

	ring.Remove("2", "6") // 4 8 14 18 24 28
	expectOwners(t, ring, map[string]string{"2": "4", "5": "8", "9": "4", "27": "8", "29": "4"})
}

func expectOwners(t *testing.T, ring *consistenthash.Map, want map[string]string) {
	t.Helper()
	for key, owner := range want {
		if got := ring.Get(key); got != owner {
			t.Errorf("Get(%q) with %v = %q, want %q", key, ring.Members(), got, owner)
		}
	}
}

// TestConsistency checks what groupcache's test of that name checks: the order
// of members does not matter, and a key that is spelt like a member stays in
// place when others join.
func TestConsistency(t *testing.T) {
	for _, hash := range []struct {
		name string
		hash consistenthash.Hash
	}{{"default", nil}, {"plain", consistenthash.PlainCRC32}} {
		t.Run(hash.name, func(t *testing.T) {
			one := consistenthash.New(1, hash.hash)
			one.Add("Bill", "Bob", "Bonny")
			other := consistenthash.New(1, hash.hash)
			other.Add("Bob", "Bonny", "Bill")
			expectSame(t, one, other, "Ben", "Bob", "Bill", "Bonny", "Becky", "Bobby")

			one.Add("Becky", "Ben", "Bobby")
			other.Add("Bobby")
			other.Add("Ben", "Becky")
			expectSame(t, one, other, "Ben", "Bob", "Bill", "Bonny", "Becky", "Bobby")
		})
	}
}

// TestGroupcacheConsistencyAsWritten is groupcache's TestConsistency step by
// step. At its end it compares two different rings. They agree on these keys by
// the luck of groupcache's hash, and so must agree here with the same hash.
func TestGroupcacheConsistencyAsWritten(t *testing.T) {
	one := consistenthash.New(1, consistenthash.PlainCRC32)
	one.Add("Bill", "Bob", "Bonny")
	other := consistenthash.New(1, consistenthash.PlainCRC32)
	other.Add("Bob", "Bonny", "Bill")
	expectSame(t, one, other, "Ben")

	other.Add("Becky", "Ben", "Bobby")
	expectSame(t, one, other, "Ben", "Bob", "Bonny")
}

func expectSame(t *testing.T, one, other *consistenthash.Map, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if a, b := one.Get(key), other.Get(key); a != b || a == "" {
			t.Errorf("key %q: owner %q with %v, owner %q with %v", key, a, one.Members(), b, other.Members())
		}
	}
}

func TestEmptyRing(t *testing.T) {
	never := consistenthash.New(512, nil)
	left := consistenthash.New(512, nil)
	left.Add("a", "b")
	left.Remove("b", "a", "a", "nobody")
	for name, ring := range map[string]*consistenthash.Map{"never filled": never, "left by all": left} {
		if got := ring.Get("key"); got != "" {
			t.Errorf("%s: Get = %q, want none", name, got)
		}
		if got := ring.Owners("key", 3); got != nil {
			t.Errorf("%s: Owners = %#v, want nil", name, got)
		}
		if ring.Len() != 0 || len(ring.Members()) != 0 || len(ring.Shares()) != 0 {
			t.Errorf("%s: Len %d, Members %q, Shares %v, want none", name, ring.Len(), ring.Members(), ring.Shares())
		}
	}
}

func TestOwnersAreDistinctAndAsManyAsThereAre(t *testing.T) {
	ring := consistenthash.New(2, number)
	ring.Add("3", "2", "1") // 1 2 3 11 12 13
	for _, tc := range []struct {
		key  string
		n    int
		want []string
	}{
		{"2", -1, nil},
		{"2", 0, nil},
		{"2", 1, []string{"2"}},
		{"2", 2, []string{"2", "3"}},
		{"2", 3, []string{"2", "3", "1"}},
		{"2", 9, []string{"2", "3", "1"}},
		{"13", 2, []string{"3", "1"}},
		{"99", 3, []string{"1", "2", "3"}},
	} {
		if got := ring.Owners(tc.key, tc.n); !slices.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("Owners(%q, %d) = %#v, want %#v", tc.key, tc.n, got, tc.want)
		}
	}
}

func TestOwnersOfALargeCluster(t *testing.T) {
	ring := consistenthash.New(4, nil)
	ring.Add(named("kring-%d", 1, 300)...)
	owners := ring.Owners("key", 300)
	if owners[0] != ring.Get("key") {
		t.Errorf("first of the owners is %q, the owner %q", owners[0], ring.Get("key"))
	}
	slices.Sort(owners)
	if !slices.Equal(owners, ring.Members()) {
		t.Errorf("%d owners are not the %d members, each once", len(owners), ring.Len())
	}
}

func TestSmallerNameWinsCoincidingPoints(t *testing.T) {
	atFive := func([]byte) uint32 { return 5 }
	for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}} {
		ring := consistenthash.New(4, atFive)
		ring.Add(order...)
		if got := ring.Owners("key", 3); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("joined as %v: owners %v, want a, b, c", order, got)
		}
		if got := ring.Shares(); got["a"] != 1 || got["b"] != 0 || got["c"] != 0 {
			t.Errorf("joined as %v: shares %v, want all for a", order, got)
		}
		ring.Remove("a")
		if got := ring.Owners("key", 3); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("joined as %v, a gone: owners %v, want b, c", order, got)
		}
		ring.Add("a")
		if got := ring.Get("key"); got != "a" {
			t.Errorf("joined as %v, a back: owner %q, want a", order, got)
		}
	}
}

// TestAmbiguousLabels: the index before the name makes all points i of "11"
// coincide with the points i1 of "1".
func TestAmbiguousLabels(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hash  consistenthash.Hash
		share bool
	}{{"as groupcache", consistenthash.PlainCRC32, true}, {"default", nil, false}} {
		t.Run(tc.name, func(t *testing.T) {
			if got := commonPoints(t, tc.hash, "1", "11"); (got > 0) != tc.share {
				t.Errorf("members 1 and 11 have %d points in common", got)
			}
		})
	}
}

// TestNoPairSharesItsPoints: with a plain index of four bytes in the label,
// each of these pairs would have all 512 points in common, and the greater name
// would own nothing.
func TestNoPairSharesItsPoints(t *testing.T) {
	for _, pair := range [][2]string{
		{"kring-7f9c4d5b68-29bc7", "kring-7f9c4d5b68-n9ls8"},
		{"kring-7f9c4d5b68-6n66d", "kring-7f9c4d5b68-qxx7k"},
		{"kring-7f9c4d5b68-fp7wj", "kring-7f9c4d5b68-p2w96"},
	} {
		naive := map[uint32]bool{}
		for _, member := range pair {
			for i := range uint32(512) {
				naive[consistenthash.PlainCRC32(binary.BigEndian.AppendUint32([]byte(member), i))] = true
			}
		}
		if len(naive) != 512 {
			t.Errorf("%q have %d different points with plain indices: not the pair that this is about", pair, len(naive))
		}
		if got := commonPoints(t, nil, pair[0], pair[1]); got > 2 {
			t.Errorf("%q have %d points in common", pair, got)
		}
	}
}

func commonPoints(t *testing.T, hash consistenthash.Hash, one, other string) int {
	t.Helper()
	ring := consistenthash.New(512, hash)
	ring.Add(one, other)
	positions, _ := consistenthash.Points(ring)
	if len(positions) != 2*512 {
		t.Fatalf("%d points for two members of 512", len(positions))
	}
	return len(positions) - len(slices.Compact(positions))
}

func TestWeightMultipliesPoints(t *testing.T) {
	ring := consistenthash.New(2, number)
	ring.AddWeighted("7", 3)
	ring.Add("9")
	expectPoints(t, ring, []uint32{7, 9, 17, 19, 27, 37, 47, 57})

	ring.AddWeighted("7", 2)
	expectPoints(t, ring, []uint32{7, 9, 17, 19, 27, 37})
	ring.Add("7")
	expectPoints(t, ring, []uint32{7, 9, 17, 19})
	ring.Add("7", "7", "9")
	expectPoints(t, ring, []uint32{7, 9, 17, 19})

	ring.AddWeighted("7", 0)
	expectPoints(t, ring, []uint32{9, 19})
	ring.AddWeighted("9", -1)
	expectPoints(t, ring, nil)
}

func expectPoints(t *testing.T, ring *consistenthash.Map, want []uint32) {
	t.Helper()
	if got, _ := consistenthash.Points(ring); !slices.Equal(got, want) {
		t.Errorf("points %v, want %v", got, want)
	}
	if err := consistenthash.CheckInvariants(ring); err != nil {
		t.Error(err)
	}
}

func TestEmptyNameIsNoMember(t *testing.T) {
	ring := consistenthash.New(1, nil)
	ring.Add("", "a")
	ring.AddWeighted("", 5)
	if got := ring.Members(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("members %q, want a alone", got)
	}
}

func TestNoReplicasMeansTheDefault(t *testing.T) {
	for _, replicas := range []int{0, -3} {
		ring := consistenthash.New(replicas, nil)
		ring.Add("a")
		if positions, _ := consistenthash.Points(ring); len(positions) != consistenthash.DefaultReplicas {
			t.Errorf("New(%d): %d points, want %d", replicas, len(positions), consistenthash.DefaultReplicas)
		}
	}
}

func TestMembersIsTheCallersCopy(t *testing.T) {
	ring := consistenthash.New(8, nil)
	ring.Add("b", "a")
	ring.Members()[0] = "z"
	if got := ring.Members(); !slices.Equal(got, []string{"a", "b"}) || ring.Len() != 2 {
		t.Errorf("members %q, Len %d, want a, b", got, ring.Len())
	}
}

func TestLookUpsAllocateNothing(t *testing.T) {
	long := string(make([]byte, 1024))
	for name, hash := range map[string]consistenthash.Hash{"default": nil, "plain": consistenthash.PlainCRC32} {
		ring := consistenthash.New(512, hash)
		ring.Add(named("kring-%d", 1, 100)...)
		var owner string
		for _, key := range []string{"", "user:42", long} {
			if got := testing.AllocsPerRun(100, func() { owner = ring.Get(key) }); got != 0 || owner == "" {
				t.Errorf("%s: Get of %d bytes = %q with %v allocations, want none", name, len(key), owner, got)
			}
		}
	}
}
