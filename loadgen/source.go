package loadgen

import (
	"strings"

	"kring/client"
)

// source is where an answer came from, in the words of Cache-Status.
type source uint8

const (
	fromNowhere source = iota // no Cache-Status, or one that says nothing of it
	fromHit
	fromHot
	fromPeer
	fromStale
	fromNegative
	fromLoad
	fromJoined // waited for a load that somebody else had begun
	sources
)

var sourceNames = [sources]string{"other", "hit", "hot", "peer", "stale", "negative", "load", "joined"}

// provenance is where an answer came from as its entry node counts it; if that is
// another node, behind is where that one had it from.
type provenance struct {
	entry, behind source
	// marked is "stand-in" or "cut-off" for an answer without the promise that
	// it is the newest.
	marked string
}

// first is how the node that acted came to the answer, be it the entry node or
// the one behind it.
func (p provenance) first() source {
	if p.entry == fromPeer {
		return p.behind
	}
	return p.entry
}

// loaded reports whether a load was made for the answer.
func (p provenance) loaded() bool { return p.first() == fromLoad }

// waited reports whether a load was waited for, its own or another's.
func (p provenance) waited() bool { return p.loaded() || p.first() == fromJoined }

func provenanceOf(header string) provenance {
	chain := client.ParseCacheStatus(header)
	if len(chain) == 0 {
		return provenance{}
	}
	p := provenance{entry: sourceOf(&chain[len(chain)-1])}
	if p.entry == fromPeer && len(chain) > 1 {
		p.behind = sourceOf(&chain[0])
	}
	for _, s := range chain {
		if s.Detail == "stand-in" || s.Detail == "cut-off" {
			p.marked = s.Detail
		}
	}
	return p
}

func sourceOf(s *client.CacheStatus) source {
	switch {
	case s.Collapsed: // also with another node's answer: whoever made the call had it
		return fromJoined
	case strings.HasPrefix(s.Detail, "peer:"):
		return fromPeer
	case s.Hit && s.Detail == "hot":
		return fromHot
	case s.Hit && s.Detail == "stale":
		return fromStale
	case s.Hit && s.Detail == "negative":
		return fromNegative
	case s.Hit:
		return fromHit
	case s.Fwd != "":
		return fromLoad
	default:
		return fromNowhere
	}
}
