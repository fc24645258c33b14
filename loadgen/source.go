package loadgen

import (
	"strings"

	"kring/client"
)

// source is where an answer came from, in the terms of Cache-Status.
type source uint8

const (
	fromNowhere source = iota // no Cache-Status, or an unknown one
	fromHit
	fromHot
	fromPeer
	fromStale
	fromNegative
	fromLoad
	fromJoined // waited for another request's load
	sources
)

var sourceNames = [sources]string{"other", "hit", "hot", "peer", "stale", "negative", "load", "joined"}

// provenance is where an answer came from: at its entry node and, if that asked
// another node, at that node, behind.
type provenance struct {
	entry, behind source
	// marked is "stand-in" or "cut-off" for an answer that may not be the
	// newest.
	marked string
}

// first is the source at the node that acted, which is the entry node or the
// one behind it.
func (p provenance) first() source {
	if p.entry == fromPeer {
		return p.behind
	}
	return p.entry
}

// loaded reports whether the answer made a load.
func (p provenance) loaded() bool { return p.first() == fromLoad }

// waited reports whether the answer waited for a load, its own or another's.
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
	case s.Collapsed: // also a shared call to another node: the request that made it counts the rest
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
