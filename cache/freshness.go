package cache

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// Unsaid is the Freshness of an origin that says nothing about it. The zero Freshness
// says that the value is never fresh.
var Unsaid = Freshness{TTL: -1, StaleWhileRevalidate: -1, StaleIfError: -1}

// state is how an entry may be used at its age.
type state uint8

const (
	dead       state = iota // not served; a load may revalidate it
	staleError              // served if the origin fails
	stale                   // served while a refresh runs
	fresh                   // served
)

var stateNames = [...]string{dead: "expired", staleError: "stale-if-error", stale: "stale", fresh: "fresh"}

func (s state) String() string { return stateNames[s] }

// state is dead for a nil entry. Both stale windows begin when the entry expires
// (RFC 5861). Negative entries, and entries of plain groups, have no such windows.
func (e *Entry) state(now time.Time) state {
	switch {
	case e == nil:
		return dead
	case e.Fresh(now):
		return fresh
	case e.Left(now)+e.StaleWhileRevalidate > 0:
		return stale
	case e.Left(now)+e.StaleIfError > 0:
		return staleError
	}
	return dead
}

// revalidatable reports whether the entry has a validator, with which a load can ask
// whether the entry is still good.
func (e *Entry) revalidatable() bool {
	return e != nil && !e.Negative && (e.OriginETag != "" || e.LastModified != "")
}

// aging reports whether a fresh entry is in the last share of its TTL, in which a get
// refreshes it.
func (g *group) aging(e *Entry, now time.Time) bool {
	return g.RefreshAhead > 0 && !e.Forever() && !g.plain() &&
		float64(e.Left(now)) < float64(e.TTL())*g.RefreshAhead
}

// admit makes the entry that is handed out and stored from the origin's answer. It is a
// copy, so that the loader may change its own.
func (g *group) admit(l *Load, loaded Loaded, now time.Time) (*Entry, error) {
	var e Entry
	asked := loaded.Asked
	if asked.IsZero() {
		asked = now
	}
	switch {
	case loaded.NotModified && l.Previous == nil:
		return nil, ErrOriginBadAnswer.With("not modified, but nothing was asked to be compared")
	case loaded.NotModified:
		e = *l.Previous
		if loaded.Tags != nil {
			e.Tags = loaded.Tags
		}
		e.ContentType = cmp.Or(loaded.ContentType, e.ContentType)
		e.OriginETag = cmp.Or(loaded.OriginETag, e.OriginETag)
		e.LastModified = cmp.Or(loaded.LastModified, e.LastModified)
		if g.RespectCacheControl && loaded.Freshness.silent() {
			e.renew(loaded.Freshness.Age, asked)
			return &e, nil
		}
	case loaded.Entry == nil:
		return nil, ErrInternal.With("the load gave no entry")
	default:
		e = *loaded.Entry
		if e.Negative {
			e = Entry{Negative: true, NoStore: e.NoStore, Tags: e.Tags}
		}
		e.Value = exact(e.Value)
		e.ETag = ContentETag(e.Value, e.ContentEncoding)
	}
	g.date(&e, loaded.Freshness, asked, now)
	return &e, nil
}

// silent reports whether the origin said nothing of how long its answer is fresh.
func (f Freshness) silent() bool {
	f.Age = 0
	return f == Unsaid
}

// renew begins the entry's times anew. A 304 that says nothing leaves in force what the
// origin said before (RFC 9111 §4.3.4). So the TTL stays, jitter included.
func (e *Entry) renew(age time.Duration, asked time.Time) {
	born := asked.Add(-max(0, age))
	if !e.Forever() {
		e.Expires = born.Add(e.TTL())
	}
	e.Born = born
}

// date sets the entry's times from the group's settings and, if the group respects it,
// from what the origin said (RFC 9111 §4.2, RFC 5861). Jitter shortens the origin's TTL
// too: many values of one max-age would expire together, and a cache may always ask
// earlier.
//
// The age counts from when the origin was asked, so that the time of the answer's way is
// part of it (§4.2.3). The group's own times count from the arrival. Otherwise an origin
// that becomes slow would be asked more often.
func (g *group) date(e *Entry, said Freshness, asked, now time.Time) {
	if !g.RespectCacheControl {
		said = Unsaid
	}
	e.Born = asked.Add(-max(0, said.Age))
	e.NoStore = e.NoStore || said.NoStore
	e.StaleWhileRevalidate, e.StaleIfError = 0, 0
	if e.Negative {
		// From the arrival, without the age: this time protects the origin from gets of
		// missing keys.
		e.Expires = now.Add(g.jittered(g.NegativeTTL))
		if ends := e.Born.Add(g.jittered(said.TTL)); said.TTL >= 0 && ends.Before(e.Expires) {
			e.Expires = ends
		}
		e.NoStore = e.NoStore || said.NoCache || said.TTL == 0 || g.NegativeTTL == 0
		return
	}
	switch {
	case said.NoCache || said.TTL == 0:
		e.Expires = e.Born // to be revalidated before each use
	case said.TTL > 0:
		e.Expires = e.Born.Add(g.jittered(said.TTL))
	case g.TTL > 0:
		e.Expires = e.Born.Add(g.jittered(g.TTL) + now.Sub(asked))
	default:
		e.Expires = time.Time{}
	}
	if said.NoCache || said.MustRevalidate {
		return
	}
	e.StaleWhileRevalidate, e.StaleIfError = g.StaleWhileRevalidate, g.StaleIfError
	if said.TTL == 0 {
		// An origin that says max-age=0 wants to be asked each time. The old value is
		// served only if the origin fails, or allows it itself.
		e.StaleWhileRevalidate = 0
	}
	if said.StaleWhileRevalidate >= 0 {
		e.StaleWhileRevalidate = said.StaleWhileRevalidate
	}
	if said.StaleIfError >= 0 {
		e.StaleIfError = said.StaleIfError
	}
}

// keepable reports whether an entry may be stored and is of use there. An entry that has
// ended and cannot be revalidated is not.
func (e *Entry) keepable(now time.Time) bool {
	return !e.NoStore && (e.state(now) > dead || e.revalidatable())
}

// exact returns b without spare capacity, which would take memory and not be counted.
func exact(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if cap(b) == len(b) {
		return b
	}
	c := make([]byte, len(b))
	copy(c, b)
	return c
}

// ContentETag is the strong entity tag, with its quotes, of a value in a
// content encoding ("" for none): 128 bits of SHA-256.
func ContentETag(value []byte, encoding string) string {
	h := sha256.New()
	h.Write([]byte(encoding))
	h.Write([]byte{0})
	h.Write(value)
	var sum [sha256.Size]byte
	var tag [34]byte
	tag[0], tag[33] = '"', '"'
	hex.Encode(tag[1:33], h.Sum(sum[:0])[:16])
	return string(tag[:])
}

const (
	errorMemory  = time.Second     // how long an error answers gets, at most
	firstBackoff = time.Second     // the wait before a failed refresh is tried again, at most
	maxBackoff   = 8 * time.Second // that wait after many failures
)

// spread is a random duration between half of d and d.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }
