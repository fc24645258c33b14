package consistenthash_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"

	"kring/consistenthash"
)

// TestReadersSeeWholeRings lets two members join and leave while readers look
// up keys. Every answer must be that of one of the four possible rings.
func TestReadersSeeWholeRings(t *testing.T) {
	const changes = 200
	base := []string{"kring-1", "kring-2", "kring-3"}
	build := func(guests ...string) *consistenthash.Map {
		ring := consistenthash.New(64, nil)
		ring.Add(append(guests, base...)...)
		return ring
	}
	possible := []*consistenthash.Map{build(), build("guest-1"), build("guest-2"), build("guest-1", "guest-2")}

	ring := build()
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for _, guest := range []string{"guest-1", "guest-2"} {
		writers.Go(func() {
			for range changes {
				ring.Add(guest)
				ring.Remove(guest)
			}
		})
	}
	for reader := range 3 {
		keys := named("user:%d", reader*1000, 50)
		readers.Go(func() {
			for {
				for _, key := range keys {
					got := ring.Owners(key, 5)
					if !slices.ContainsFunc(possible, func(r *consistenthash.Map) bool {
						return slices.Equal(r.Owners(key, 5), got)
					}) {
						t.Errorf("owners of %q are %q, which no membership gives", key, got)
						return
					}
					if owner := ring.Get(key); !slices.ContainsFunc(possible, func(r *consistenthash.Map) bool {
						return r.Get(key) == owner
					}) {
						t.Errorf("owner of %q is %q, which no membership gives", key, owner)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()

	positions, owners := consistenthash.Points(ring)
	wantPositions, wantOwners := consistenthash.Points(possible[0])
	if !slices.Equal(positions, wantPositions) || !slices.Equal(owners, wantOwners) {
		t.Errorf("after all guests have left the members are %q and the ring is not the first one", ring.Members())
	}
}

// TestWritersLoseNothing lets many writers change the ring at once, each its
// own members. No change may start from a ring that another one has replaced.
func TestWritersLoseNothing(t *testing.T) {
	ring := consistenthash.New(128, nil)
	start := make(chan struct{})
	var writers sync.WaitGroup
	var want []string
	for writer := range 8 {
		members := named("writer-"+strconv.Itoa(writer)+"-%d", 0, 20)
		want = append(want, members[10:]...)
		writers.Go(func() {
			<-start
			for _, member := range members {
				ring.Add(member)
			}
			for _, member := range members[:10] {
				ring.Remove(member)
			}
		})
	}
	close(start)
	writers.Wait()

	slices.Sort(want)
	if got := ring.Members(); !slices.Equal(got, want) {
		t.Errorf("%d members are left, want %d", len(got), len(want))
	}
	if err := consistenthash.CheckInvariants(ring); err != nil {
		t.Error(err)
	}
}
