package cache

import (
	"fmt"
	"time"
)

// Key names one value: a group and the key's bytes. Only the bytes of Key are
// hashed on the ring, as golang/groupcache does.
type Key struct{ Group, Key string }

// Version orders the values of a key without clocks: the view in which its
// owner acted (number, random id) and that owner's counter. The newest wins.
type Version struct {
	View    uint64
	ViewID  uint64
	Counter uint64
}

func (v Version) String() string { return fmt.Sprintf("%d.%x.%d", v.View, v.ViewID, v.Counter) }

// Entry is one value and what is known about it. It is immutable once stored
// or handed out; Value must not be written to.
type Entry struct {
	Value           []byte
	ContentType     string
	ContentEncoding string
	ETag            string // strong, of the content, with its quotes: what clients see
	LastModified    string // as the origin sent it, or ""
	OriginETag      string // the origin's own validator, for conditional loads, or ""
	Tags            []string
	Version         Version

	// Negative says that the origin has no such key (404 or 410). Value is empty.
	Negative bool

	// Born is when the value left its origin, or was PUT, on this node's
	// monotonic clock: ages travel between nodes as durations.
	Born time.Time
	// Expires is when the entry is no longer fresh, on the same clock. The zero Time
	// means never.
	Expires time.Time
	// StaleWhileRevalidate and StaleIfError are how long after Expires the entry may
	// still be served while a refresh runs, or when the origin fails.
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration
	// NoStore says that the value may be shared with those who already wait
	// for it, but not kept.
	NoStore bool

	// Term is the term in which the entry was stored. It is served in no other.
	Term Term
}

// Age is how old the value is.
func (e *Entry) Age(now time.Time) time.Duration { return max(0, now.Sub(e.Born)) }

// Forever reports whether the entry stays fresh until it is written or evicted.
func (e *Entry) Forever() bool { return e.Expires.IsZero() }

// TTL is the whole time from Born for which the entry is fresh. It has none if it is
// fresh for ever.
func (e *Entry) TTL() time.Duration { return e.Expires.Sub(e.Born) }

// Left is for how much longer the entry is fresh; negative when it is stale. It is
// meaningless for an entry that is fresh for ever.
func (e *Entry) Left(now time.Time) time.Duration { return e.Expires.Sub(now) }

// Fresh reports whether the entry may be served without asking anybody.
func (e *Entry) Fresh(now time.Time) bool { return e.Forever() || now.Before(e.Expires) }
