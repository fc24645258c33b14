package consistenthash_test

import (
	"fmt"
	"testing"

	"kring/consistenthash"
)

// TestPlacementIsPinned: two builds that place keys differently cannot be in
// one cluster. A change of any of these values needs a change of the ring
// parameters that nodes compare in the handshake, and an entry in the
// changelog.
func TestPlacementIsPinned(t *testing.T) {
	for _, tc := range []struct {
		name   string
		hash   consistenthash.Hash
		user42 uint32
		// owners are the owners of user:0 … user:9, by the last digit of their
		// names.
		owners string
		// all is a digest of the owners of 10,000 keys with 10 members.
		all uint32
	}{
		{name: "default", hash: nil, user42: 0x518bc158, owners: "2313313133", all: 0x823ebed6},
		{name: "plain", hash: consistenthash.PlainCRC32, user42: 0x646f0d86, owners: "3232132331", all: 0x5f0a205f},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ring := consistenthash.New(512, tc.hash)
			ring.AddWeighted("kring-3", 2)
			ring.Add("kring-2", "kring-1")
			if got := ring.Hash("user:42"); got != tc.user42 {
				t.Errorf("position of user:42 is %#x, was %#x", got, tc.user42)
			}
			owners := ""
			for _, key := range named("user:%d", 0, 10) {
				owners += ring.Get(key)[len("kring-"):]
			}
			if owners != tc.owners {
				t.Errorf("owners of user:0 to user:9 are %s, were %s", owners, tc.owners)
			}

			ten := consistenthash.New(512, tc.hash)
			ten.Add(named("http://localhost:%d", 8001, 10)...)
			var all []byte
			for _, key := range named("user:%d", 0, 10_000) {
				all = fmt.Appendln(all, key, ten.Owners(key, 2))
			}
			if got := consistenthash.PlainCRC32(all); got != tc.all {
				t.Errorf("owners of 10,000 keys sum up to %#x, did to %#x", got, tc.all)
			}
		})
	}
}
