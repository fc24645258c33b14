package consistenthash_test

import (
	"slices"
	"strconv"
	"testing"

	"kring/consistenthash"
)

// number is a hash whose values are easy to reason about: the text read as a
// decimal number. The points of member "6" are 6, 16, 26, …
func number(data []byte) uint32 {
	n, err := strconv.ParseUint(string(data), 10, 32)
	if err != nil {
		panic(err)
	}
	return uint32(n)
}

func TestKeyBelongsToTheFirstPointAtOrAfterIt(t *testing.T) {
	ring := consistenthash.New(3, number)
	ring.Add("6", "4", "2") // 2 4 6 12 14 16 22 24 26

	expectOwners(t, ring, map[string]string{"2": "2", "3": "4", "11": "2", "23": "4", "26": "6", "27": "2", "0": "2"})

	ring.Add("8") // 8 18 28
	expectOwners(t, ring, map[string]string{"2": "2", "7": "8", "11": "2", "23": "4", "27": "8", "29": "2"})

	ring.Remove("2", "6")
	expectOwners(t, ring, map[string]string{"2": "4", "5": "8", "9": "4", "27": "8", "29": "4"})
}

func expectOwners(t *testing.T, ring *consistenthash.Map, want map[string]string) {
	t.Helper()
	for key, owner := range want {
		if got := ring.Get(key); got != owner {
			t.Errorf("Get(%q) with %v = %q, want %q", key, ring.Members(), got, owner)
		}
		if got := ring.Owners(key, 1); !slices.Equal(got, []string{owner}) {
			t.Errorf("Owners(%q, 1) with %v = %q, want %q alone", key, ring.Members(), got, owner)
		}
	}
}
