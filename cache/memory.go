package cache

import (
	"errors"
	"strings"
	"time"

	"github.com/golang/groupcache/lru"
)

// remembered is how many failures, and how many last loads, one memory keeps.
const remembered = 64

// failure is a load that failed lately.
type failure struct {
	err     error
	until   time.Time // till when it answers the gets of the key
	retryAt time.Time // till when a get that has a stale value starts no load
	streak  int       // failures in a row
	purges  uint64    // of the group before it
}

// memory is what is remembered of ended loads. It is bounded: the oldest goes.
type memory struct {
	failures *lru.Cache        // Key → *failure
	loads    *lru.Cache        // Key → *LastLoad
	purges   map[string]uint64 // of a group: what failed before counts no more
}

func newMemory() memory {
	return memory{failures: lru.New(remembered), loads: lru.New(remembered), purges: map[string]uint64{}}
}

// failure returns the key's last failure, or one that is over.
func (m *memory) failure(key Key) failure {
	if v, ok := m.failures.Get(key); ok {
		if f := v.(*failure); f.purges == m.purges[key.Group] {
			return *f
		}
	}
	return failure{}
}

// failed remembers a failure: for as long as the origin does not want to be asked,
// and else briefly.
func (m *memory) failed(key Key, err error, now time.Time) {
	streak := m.failure(key).streak + 1
	backoff := min(firstBackoff<<min(streak-1, 10), maxBackoff)
	var wait time.Duration
	var known *Error
	if errors.As(err, &known) {
		wait = known.RetryAfter
		err = known.Because(nil) // the cause has been logged, and may hold half an answer
	}
	m.failures.Add(key, &failure{
		err: err, streak: streak, purges: m.purges[key.Group],
		until:   now.Add(max(spread(errorMemory), wait)),
		retryAt: now.Add(max(spread(backoff), wait)),
	})
}

// again is the error for later gets. Of the time that the origin asked for, it names
// what is left.
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

// owned returns key with bytes of its own: the caller's may be part of a
// request's buffer.
func owned(key Key) Key { return Key{Group: key.Group, Key: strings.Clone(key.Key)} }
