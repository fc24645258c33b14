package loadgen

import "testing"

// The documented forms of Cache-Status, and their meaning for the entry node.
func TestProvenance(t *testing.T) {
	for header, want := range map[string]provenance{
		"kring-1; hit; ttl=37":                                                         {entry: fromHit},
		"kring-1; hit":                                                                 {entry: fromHit},
		"kring-1; hit; ttl=2; detail=hot":                                              {entry: fromHot},
		"kring-1; hit; detail=stale":                                                   {entry: fromStale},
		"kring-1; hit; detail=negative":                                                {entry: fromNegative},
		"kring-2; fwd=miss; fwd-status=200; stored":                                    {entry: fromLoad},
		"kring-2; fwd=stale; fwd-status=304; stored":                                   {entry: fromLoad},
		"kring-2; fwd=miss; fwd-status=200; stored; collapsed":                         {entry: fromJoined},
		"kring-1; fwd=miss; detail=peer:kring-2":                                       {entry: fromPeer},
		"kring-2; hit; ttl=37, kring-1; fwd=miss; detail=peer:kring-2":                 {entry: fromPeer, behind: fromHit},
		"kring-2; hit; detail=negative, kring-1; fwd=miss; detail=peer:kring-2":        {entry: fromPeer, behind: fromNegative},
		"kring-2; fwd=miss; fwd-status=200; stored, k-1; fwd=miss; detail=peer:k-2":    {entry: fromPeer, behind: fromLoad},
		"kring-2; fwd=miss; stored, k-1; fwd=miss; collapsed; detail=peer:k-2":         {entry: fromJoined},
		"kring-2; fwd=miss; fwd-status=200; detail=stand-in":                           {entry: fromLoad, marked: "stand-in"},
		"kring-2; hit; detail=cut-off":                                                 {entry: fromHit, marked: "cut-off"},
		"kring-2; hit; ttl=1; detail=stand-in, kring-1; fwd=miss; detail=peer:kring-2": {entry: fromPeer, behind: fromHit, marked: "stand-in"},
		"":      {},
		"junk=": {},
		"other": {},
	} {
		if got := provenanceOf(header); got != want {
			t.Errorf("%q: got %+v, want %+v", header, got, want)
		}
	}
}
