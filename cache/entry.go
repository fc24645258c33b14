package cache

import (
	"fmt"
	"time"
)

// Key names one value: a group and the key's bytes. The ring hashes only the bytes, as
// golang/groupcache does.
type Key struct{ Group, Key string }

// Version orders the values of a key without clocks. It has the view in which the owner
// acted (number and random id) and the owner's counter. The newest wins.
type Version struct {
	View    uint64
	ViewID  uint64
	Counter uint64
}

func (v Version) String() string { return fmt.Sprintf("%d.%x.%d", v.View, v.ViewID, v.Counter) }

// Entry is one value and its properties. It is immutable once it is stored or handed
// out. Nobody may write to Value.
type Entry struct {
	Value           []byte
	ContentType     string
	ContentEncoding string
	ETag            string // strong, made of the content, with its quotes: clients see this one
	LastModified    string // as the origin sent it, or ""
	OriginETag      string // the origin's own validator, for conditional loads, or ""
	Tags            []string
	Version         Version

	// Negative says that the origin has no such key (404 or 410). Value is empty then.
	Negative bool

	// Born is when the value left its origin, or was PUT, on this node's monotonic
	// clock. Between nodes ages travel as durations.
	Born time.Time
	// Expires is when the entry is no longer fresh, on the same clock. The zero Time
	// means never.
	Expires time.Time
	// StaleWhileRevalidate and StaleIfError are how long after Expires the entry may
	// still be served while a refresh runs, or when the origin fails.
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration
	// NoStore says that the gets that already wait for the value may have it, and that
	// it must not be stored.
	NoStore bool

	// Term is the term in which the entry was stored. It is served in this term only.
	Term Term
}

// Age is how old the value is.
func (e *Entry) Age(now time.Time) time.Duration { return max(0, now.Sub(e.Born)) }

// Forever reports whether the entry stays fresh until it is written or evicted.
func (e *Entry) Forever() bool { return e.Expires.IsZero() }

// TTL is the time from Born to Expires. It is meaningless for an entry that is fresh
// for ever.
func (e *Entry) TTL() time.Duration { return e.Expires.Sub(e.Born) }

// Left is how much longer the entry is fresh. It is negative for a stale entry, and
// meaningless for an entry that is fresh for ever.
func (e *Entry) Left(now time.Time) time.Duration { return e.Expires.Sub(now) }

// Fresh reports whether the entry may be served without a load.
func (e *Entry) Fresh(now time.Time) bool { return e.Forever() || now.Before(e.Expires) }
