package cache

import (
	"math/rand/v2"
	"testing"
)

// A key that was added is known until seenPerGeneration others have been added after
// it. Hardly any new key is taken for a known one.
func TestSeenKeys(t *testing.T) {
	var m seenKeys
	if m.has(1) {
		t.Error("something is known to begin with")
	}
	hash := rand.New(rand.NewPCG(1, 2)).Uint64
	old := make([]uint64, 3*seenPerGeneration)
	for i := range old {
		old[i] = hash()
		m.add(old[i])
		m.add(old[i]) // again makes no difference
	}
	for _, h := range old[2*seenPerGeneration:] {
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
	var none *seenKeys
	none.add(1)
	if none.has(1) {
		t.Error("a group without a limit knows keys")
	}
}
