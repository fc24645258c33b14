package loadgen

import (
	"errors"
	"hash/maphash"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// ledger records what a run has put and deleted, and so knows which values a
// read must not see any more. Its clock ticks when a write begins and when it
// is acknowledged. Suppose that value A was acknowledged before write B began,
// and B was acknowledged before a read began: then A is too old for the read.
// Two concurrent writes have no order, and a failed write may still take
// effect, so these alone make no value too old.
type ledger struct {
	run    string // in every version, to tell other runs' values apart
	clock  atomic.Int64
	seed   maphash.Seed
	shards [64]ledgerShard
}

type ledgerShard struct {
	mu   sync.Mutex // guards keys and their histories
	keys map[string]*history
}

// history is the writes of one key.
type history struct {
	// floor is the latest begin of an acknowledged write.
	floor int64
	// ends is the acknowledgement of each put by its begin; never if it has
	// none.
	ends map[int64]int64
	// dropped is above the acknowledgements of all puts that ends has
	// forgotten.
	dropped int64
}

const (
	never       = math.MaxInt64
	maxRemember = 128 // puts of one key; beyond it old ones are forgotten
)

func newLedger(run string) *ledger {
	l := &ledger{run: run, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].keys = map[string]*history{}
	}
	return l
}

func (l *ledger) shard(key string) *ledgerShard {
	return &l.shards[maphash.String(l.seed, key)%uint64(len(l.shards))]
}

// put records the begin of a put, and returns the version that its value must
// have.
func (l *ledger) put(key string) (version string, begun int64) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.historyLocked(key)
	begun = l.clock.Add(1)
	h.ends[begun] = never
	return "w-" + l.run + "-" + strconv.FormatInt(begun, 10), begun
}

// remove records the begin of a delete.
func (l *ledger) remove() (begun int64) { return l.clock.Add(1) }

// acknowledged records that a write has taken effect. A failed write is not
// recorded: it may still take effect.
func (l *ledger) acknowledged(key string, begun int64) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.historyLocked(key)
	if _, isPut := h.ends[begun]; isPut {
		h.ends[begun] = l.clock.Add(1)
	}
	h.floor = max(h.floor, begun)
	if len(h.ends) > maxRemember {
		for b, end := range h.ends {
			if end < h.floor {
				delete(h.ends, b)
			}
		}
		h.dropped = h.floor
	}
}

// floor must be read before a read begins. Its value is for seen.
func (l *ledger) floor(key string) int64 {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.keys[key]; h != nil {
		return h.floor
	}
	return 0
}

var (
	errOld       = errors.New("the value is older than an acknowledged write")
	errNotOurs   = errors.New("the value has a version that was never put there")
	errMalformed = errors.New("the version is not of the right form")
)

// seen judges the version that a read got; floor is from before the read.
// Versions of the origin or of another run are always good, because a put value
// may have been evicted.
func (l *ledger) seen(key, version string, floor int64) error {
	ticks, ours := strings.CutPrefix(version, "w-"+l.run+"-")
	if !ours {
		return nil
	}
	begun, err := strconv.ParseInt(ticks, 10, 64)
	if err != nil {
		return errMalformed
	}
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.keys[key]
	if h == nil {
		return errNotOurs
	}
	end, known := h.ends[begun]
	switch {
	case known && end < floor:
		return errOld
	case known:
		return nil
	case h.dropped == 0:
		return errNotOurs
	case floor >= h.dropped:
		return errOld
	default: // forgotten now, but not when the read began
		return nil
	}
}

func (s *ledgerShard) historyLocked(key string) *history {
	h := s.keys[key]
	if h == nil {
		h = &history{ends: map[int64]int64{}}
		s.keys[key] = h
	}
	return h
}
