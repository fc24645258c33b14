package consistenthash_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"kring/consistenthash"
)

// coarse is a hash with 64 values, spread over the circle, so that points of
// different members often coincide and buckets overflow.
func coarse(data []byte) uint32 {
	h := consistenthash.PlainCRC32(data)
	return (h ^ h>>16) & 63 << 26
}

var (
	hashes  = rapid.SampledFrom([]string{"default", "plain", "coarse"})
	names   = rapid.StringMatching(`[a-c]?[0-9]{1,2}`)
	members = rapid.MapOfN(names, rapid.IntRange(1, 4), 1, 12)
	key     = rapid.String()
	keys    = rapid.SliceOfN(key, 1, 30)
)

func hashNamed(name string) consistenthash.Hash {
	return map[string]consistenthash.Hash{"plain": consistenthash.PlainCRC32, "coarse": coarse}[name]
}

// ringOf puts the members on a new ring, in this order.
func ringOf(replicas int, hash consistenthash.Hash, order []string, weights map[string]int) *consistenthash.Map {
	ring := consistenthash.New(replicas, hash)
	for _, member := range order {
		ring.AddWeighted(member, weights[member])
	}
	return ring
}

func sorted(weights map[string]int) []string { return slices.Sorted(maps.Keys(weights)) }

// TestRingIsItsDefinition changes a ring at random. After each change it
// compares the ring with the definition and with a ring made at once.
func TestRingIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.IntRange(1, 12).Draw(t, "replicas")
		hash := hashNamed(rapid.SampledFrom([]string{"plain", "coarse"}).Draw(t, "hash"))
		ring := consistenthash.New(replicas, hash)
		want := reference{replicas, hash, map[string]int{}}

		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				joining := rapid.SliceOfN(names, 0, 3).Draw(t, "joining")
				ring.Add(joining...)
				for _, member := range joining {
					want.weights[member] = 1
				}
			},
			"weigh": func(t *rapid.T) {
				member, weight := names.Draw(t, "member"), rapid.IntRange(0, 4).Draw(t, "weight")
				ring.AddWeighted(member, weight)
				want.weights[member] = weight
				maps.DeleteFunc(want.weights, func(_ string, weight int) bool { return weight == 0 })
			},
			"remove": func(t *rapid.T) {
				leaving := rapid.SliceOfN(names, 0, 3).Draw(t, "leaving")
				ring.Remove(leaving...)
				for _, member := range leaving {
					delete(want.weights, member)
				}
			},
			"": func(t *rapid.T) {
				if err := consistenthash.CheckInvariants(ring); err != nil {
					t.Fatal(err)
				}
				if got := ring.Members(); !slices.Equal(got, sorted(want.weights)) || ring.Len() != len(got) {
					t.Fatalf("members %q, Len %d, want %q", got, ring.Len(), sorted(want.weights))
				}
				asked := key.Draw(t, "key")
				walk := want.walk(hash([]byte(asked)))
				if got := ring.Owners(asked, ring.Len()); !slices.Equal(got, walk) {
					t.Fatalf("owners of %q are %q, want %q", asked, got, walk)
				}
				atOnce := ringOf(replicas, hash, rapid.Permutation(sorted(want.weights)).Draw(t, "order"), want.weights)
				expectEqualRings(t, ring, atOnce)
			},
		})
	})
}

func expectEqualRings(t *rapid.T, one, other *consistenthash.Map) {
	positions, owners := consistenthash.Points(one)
	otherPositions, otherOwners := consistenthash.Points(other)
	if !slices.Equal(positions, otherPositions) || !slices.Equal(owners, otherOwners) {
		t.Fatalf("the same members in another order give another ring: %v", one.Members())
	}
}

func TestOwnersStartWithTheOwnerAndGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := members.Draw(t, "members")
		ring := ringOf(16, hashNamed(hashes.Draw(t, "hash")), sorted(weights), weights)
		for _, key := range keys.Draw(t, "keys") {
			all := ring.Owners(key, len(weights)+1)
			if distinct := slices.Compact(slices.Sorted(slices.Values(all))); !slices.Equal(distinct, ring.Members()) {
				t.Fatalf("owners of %q are %q, want each of %q once", key, all, ring.Members())
			}
			if got := ring.Get(key); got != all[0] {
				t.Fatalf("Get(%q) = %q, but owners are %q", key, got, all)
			}
			for n := range all {
				if got := ring.Owners(key, n); !slices.Equal(got, all[:n]) {
					t.Fatalf("Owners(%q, %d) = %q, want the start of %q", key, n, got, all)
				}
			}
		}
	})
}

// TestLeaveMovesOnlyKeysOfTheOneThatLeaves, each to the next owner. Read
// backwards it is the same for a join.
func TestLeaveMovesOnlyKeysOfTheOneThatLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := members.Draw(t, "members")
		hash := hashNamed(hashes.Draw(t, "hash"))
		with := ringOf(16, hash, sorted(weights), weights)
		leaver := rapid.SampledFrom(sorted(weights)).Draw(t, "leaver")
		without := ringOf(16, hash, sorted(weights), weights)
		without.Remove(leaver)

		for _, key := range keys.Draw(t, "keys") {
			before := with.Owners(key, len(weights))
			want := slices.DeleteFunc(slices.Clone(before), func(member string) bool { return member == leaver })
			if got := without.Owners(key, len(weights)); !slices.Equal(got, want) {
				t.Fatalf("%q left: owners of %q go from %q to %q", leaver, key, before, got)
			}
		}
		without.AddWeighted(leaver, weights[leaver])
		expectEqualRings(t, without, with)
	})
}

func TestMoreWeightMovesKeysOnlyToTheOneThatGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := members.Draw(t, "members")
		ring := ringOf(16, hashNamed(hashes.Draw(t, "hash")), sorted(weights), weights)
		grower := rapid.SampledFrom(sorted(weights)).Draw(t, "grower")
		asked := keys.Draw(t, "keys")
		var before []string
		for _, key := range asked {
			before = append(before, ring.Get(key))
		}
		share := ring.Shares()[grower]

		ring.AddWeighted(grower, weights[grower]+rapid.IntRange(1, 3).Draw(t, "more"))
		for i, key := range asked {
			if got := ring.Get(key); got != before[i] && got != grower {
				t.Fatalf("%q grew: owner of %q goes from %q to %q", grower, key, before[i], got)
			}
		}
		if now := ring.Shares()[grower]; now < share {
			t.Fatalf("%q grew: its share goes from %v to %v", grower, share, now)
		}
	})
}

// TestSharesAreWhatKeysSee looks up the owner of each of 64 equal arcs, at
// whose ends all points are, and so knows the shares without a hash.
func TestSharesAreWhatKeysSee(t *testing.T) {
	const arcs = 64
	rapid.Check(t, func(t *rapid.T) {
		joining := rapid.SliceOfNDistinct(rapid.IntRange(0, 99), 1, 12, rapid.ID).Draw(t, "members")
		ring := consistenthash.New(rapid.IntRange(1, 9).Draw(t, "replicas"), func(data []byte) uint32 {
			return number(data) % arcs << 26
		})
		for _, member := range joining {
			ring.Add(strconv.Itoa(member))
		}
		owned := map[string]float64{}
		for arc := range arcs {
			owned[ring.Get(strconv.Itoa(arc))]++
		}
		shares := ring.Shares()
		if len(shares) != len(joining) {
			t.Fatalf("%d shares for %d members", len(shares), len(joining))
		}
		for member, share := range shares {
			if share != owned[member]/arcs {
				t.Fatalf("share of %q is %v, but it owns %v of %d arcs", member, share, owned[member], arcs)
			}
		}
	})
}

func TestSharesAddUpToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := members.Draw(t, "members")
		ring := ringOf(16, hashNamed(hashes.Draw(t, "hash")), sorted(weights), weights)
		sum := 0.0
		for _, share := range ring.Shares() {
			sum += share
		}
		if sum != 1 {
			t.Fatalf("shares add up to %v: %v", sum, ring.Shares())
		}
	})
}
