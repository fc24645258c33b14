// Package throttle keeps lines that may repeat from filling a log.
package throttle

import (
	"math"
	"sync"
	"time"
)

// Once is the interval of a line that is not to be repeated.
const Once time.Duration = math.MaxInt64

// Lines remembers which lines were logged. A line's key says what it is about.
type Lines[K comparable] struct {
	most int

	mu       sync.Mutex // guards what follows
	lines    map[K]*line
	leftOver int // skipped lines of forgotten keys, or without room for their key
}

type line struct {
	due     time.Time // when it may be logged again
	skipped int       // how often it was not logged since
}

// New remembers up to most lines, or any number for 0. While there is no room
// for another, lines with a new key are skipped.
func New[K comparable](most int) *Lines[K] {
	return &Lines[K]{most: most, lines: map[K]*line{}}
}

// Due reports whether a line is to be logged now, because it is new or the
// interval it was last logged with has passed. The line should then say how many
// lines were skipped before it.
func (l *Lines[K]) Due(key K, interval time.Duration) (skipped int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	known := l.lines[key]
	switch {
	case known == nil && !l.roomLocked(now):
		l.leftOver++
		return 0, false
	case known == nil:
		known = &line{}
		l.lines[key] = known
	case now.Before(known.due):
		known.skipped++
		return 0, false
	}
	skipped = known.skipped + l.leftOver
	known.due, known.skipped, l.leftOver = now.Add(interval), 0, 0
	return skipped, true
}

// roomLocked forgets lines that are due if there is no room for another.
func (l *Lines[K]) roomLocked(now time.Time) bool {
	if l.most == 0 || len(l.lines) < l.most {
		return true
	}
	for key, known := range l.lines {
		if !now.Before(known.due) {
			l.leftOver += known.skipped
			delete(l.lines, key)
		}
	}
	return len(l.lines) < l.most
}

// Forget makes a line new again.
func (l *Lines[K]) Forget(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lines, key)
}

// Len is how many lines are remembered.
func (l *Lines[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}
