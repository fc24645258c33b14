package cache

import (
	"math"
	"math/rand/v2"
	"regexp"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

const defaultLoadTimeout = 10 * time.Second

// group is a GroupConfig made ready for use, with the group's counters.
type group struct {
	GroupConfig
	pattern  *regexp.Regexp // nil: all keys
	newKeys  *rate.Limiter  // limits the loads of keys that seen does not have; nil: no limit
	seen     *seenKeys
	failing  backgroundFailures
	counters counters
}

func newGroup(cfg GroupConfig) (*group, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pattern, err := cfg.pattern()
	if err != nil {
		return nil, err
	}
	g := &group{GroupConfig: cfg, pattern: pattern}
	if g.LoadTimeout == 0 {
		g.LoadTimeout = defaultLoadTimeout
	}
	if g.NewKeyRate > 0 {
		// The loads of one second may come all at once.
		g.newKeys, g.seen = rate.NewLimiter(rate.Limit(g.NewKeyRate), int(math.Ceil(g.NewKeyRate))), new(seenKeys)
	}
	return g, nil
}

// plain reports whether the group has no origin: only PUT fills it.
func (g *group) plain() bool { return g.Origin == OriginConfig{} }

// matches reports whether the group can have the key.
func (g *group) matches(key string) bool { return g.pattern == nil || g.pattern.MatchString(key) }

// checkKey refuses a key that is impossible in the group.
func (g *group) checkKey(key string, maxBytes int) error {
	if key == "" {
		return ErrBadKey.With("the key is empty")
	}
	if len(key) > maxBytes {
		return ErrKeyTooLong
	}
	if !printable(key) {
		if err := checkText(key); err != nil {
			return err
		}
	}
	if g.CheckKey != nil {
		return g.CheckKey(key)
	}
	return nil
}

// printable reports whether the key is printable ASCII. Most keys are, and need no check
// of each rune, which is much slower.
func printable(key string) bool {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

// checkText refuses a key that is not UTF-8, or has a control character, such as one that
// ends a line.
func checkText(key string) error {
	for i, r := range key {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(key[i:]); n == 1 {
				return ErrBadKey.With("the key is not valid UTF-8")
			}
		}
		if unicode.IsControl(r) {
			return ErrBadKey.With("the key has a control character")
		}
	}
	return nil
}

// jittered shortens a lifetime by a random part of up to the group's jitter.
func (g *group) jittered(d time.Duration) time.Duration {
	return d - time.Duration(float64(d)*g.Jitter*rand.Float64())
}
