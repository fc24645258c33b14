package consistenthash_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"kring/consistenthash"
)

// FuzzOrderDoesNotShow builds the same membership at once, one by one in
// another order, and with members that join and leave.
func FuzzOrderDoesNotShow(f *testing.F) {
	f.Add("http://10.0.0.1:8000\nhttp://10.0.0.2:8000\nhttp://10.0.0.3:8000", uint64(1), "user:1")
	f.Add("1\n11\n111\n2", uint64(2), "")
	f.Add("\x00\n\xff\xfe\na", uint64(3), "\x00")
	f.Fuzz(func(t *testing.T, text string, seed uint64, key string) {
		members := distinctLines(text)
		order := slices.Clone(members)
		random := rand.New(rand.NewPCG(seed, 0))
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })

		for _, hash := range []consistenthash.Hash{nil, consistenthash.PlainCRC32, coarse} {
			atOnce := consistenthash.New(9, hash)
			atOnce.Add(members...)

			winding := consistenthash.New(9, hash)
			winding.Add("a guest\n")
			for i, member := range order {
				winding.AddWeighted(member, 1+random.IntN(3))
				winding.Remove(order[random.IntN(i+1)])
			}
			for _, member := range order {
				winding.Add(member)
			}
			winding.Remove("a guest\n")

			for _, ring := range []*consistenthash.Map{atOnce, winding} {
				if err := consistenthash.CheckInvariants(ring); err != nil {
					t.Fatal(err)
				}
			}
			positions, owners := consistenthash.Points(atOnce)
			otherPositions, otherOwners := consistenthash.Points(winding)
			if !slices.Equal(positions, otherPositions) || !slices.Equal(owners, otherOwners) {
				t.Errorf("members %q joined as %q give another ring", members, order)
			}
			if one, other := atOnce.Owners(key, 40), winding.Owners(key, 40); !slices.Equal(one, other) || len(one) != len(members) {
				t.Errorf("owners of %q are %q, or %q joined as %q", key, one, other, order)
			}
		}
	})
}
