package cache

import (
	"math/rand/v2"
	"testing"
)

// A key that was added is known as long as fewer than metKeys others came
// after it, and hardly any other is taken for one.
func TestMet(t *testing.T) {
	var m met
	if m.has(1) {
		t.Error("something is known to begin with")
	}
	hash := rand.New(rand.NewPCG(1, 2)).Uint64
	old := make([]uint64, 3*metKeys)
	for i := range old {
		old[i] = hash()
		m.add(old[i])
		m.add(old[i]) // again makes no difference
	}
	for _, h := range old[2*metKeys:] {
		if !m.has(h) {
			t.Fatalf("%x is forgotten", h)
		}
	}
	wrong := 0
	const tries = 100_000
	for range tries {
		if m.has(hash()) {
			wrong++
		}
	}
	if wrong > tries/250 {
		t.Errorf("%d of %d keys are taken for known ones", wrong, tries)
	}
	var none *met
	none.add(1)
	if none.has(1) {
		t.Error("a group without a limit knows keys")
	}
}
