package cache

import (
	"errors"
	"strings"
	"time"

	"github.com/golang/groupcache/lru"
)

// remembered is how many failures one memory keeps, and how many last loads.
const remembered = 64

// failure is a load that failed lately.
type failure struct {
	err     error
	until   time.Time // until then it answers the gets of the key
	retryAt time.Time // until then a get that has a stale value starts no load
	streak  int       // failures in a row
	purges  uint64    // how many purges of the group there were before it
}

// memory remembers how loads ended. It is bounded: the oldest is forgotten first.
type memory struct {
	failures *lru.Cache        // Key → *failure
	loads    *lru.Cache        // Key → *LastLoad
	purges   map[string]uint64 // purges of each group: a failure before the newest counts no more
}

func newMemory() memory {
	return memory{failures: lru.New(remembered), loads: lru.New(remembered), purges: map[string]uint64{}}
}

// failure returns the key's last failure. Without one the result's times have passed.
func (m *memory) failure(key Key) failure {
	if v, ok := m.failures.Get(key); ok {
		if f := v.(*failure); f.purges == m.purges[key.Group] {
			return *f
		}
	}
	return failure{}
}

// failed remembers a failure for as long as the origin wants not to be asked, or briefly
// if it did not say.
func (m *memory) failed(key Key, err error, now time.Time) {
	streak := m.failure(key).streak + 1
	backoff := min(firstBackoff<<min(streak-1, 10), maxBackoff)
	var wait time.Duration
	var known *Error
	if errors.As(err, &known) {
		wait = known.RetryAfter
		err = known.Because(nil) // the cause is logged by now, and may hold part of an answer
	}
	m.failures.Add(key, &failure{
		err: err, streak: streak, purges: m.purges[key.Group],
		until:   now.Add(max(spread(errorMemory), wait)),
		retryAt: now.Add(max(spread(backoff), wait)),
	})
}

// again is the error for later gets. Its RetryAfter is the rest of the time that the
// origin asked for.
func (f *failure) again(now time.Time) error {
	var known *Error
	if !errors.As(f.err, &known) || known.RetryAfter == 0 {
		return f.err
	}
	return known.Saying(known.Verdict, max(0, f.until.Sub(now)))
}

func (m *memory) forgive(key Key) { m.failures.Remove(key) }

// forgiveAll forgets the failures of a group.
func (m *memory) forgiveAll(group string) { m.purges[group]++ }

func (m *memory) lastLoad(key Key) *LastLoad {
	if v, ok := m.loads.Get(key); ok {
		return v.(*LastLoad)
	}
	return nil
}

// owned returns key with bytes of its own. The caller's bytes may be part of a request's
// buffer, which the key would keep in memory.
func owned(key Key) Key { return Key{Group: key.Group, Key: strings.Clone(key.Key)} }
