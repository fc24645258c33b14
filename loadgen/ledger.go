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

// ledger knows what a run has put and deleted, and thereby which values must
// not be seen any more. Its clock ticks when a write begins and when its
// acknowledgement is there. A value that was acknowledged before a later write
// began is old for every read that begins after that write's acknowledgement.
// Two writes at once have no order, and a write that failed may still happen:
// their values are never old by themselves.
type ledger struct {
	run    string // in every version, so that another run's values are known as such
	clock  atomic.Int64
	seed   maphash.Seed
	shards [64]ledgerShard
}

type ledgerShard struct {
	mu   sync.Mutex // guards keys and the histories in it
	keys map[string]*history
}

// history is what was written to one key.
type history struct {
	// floor is the latest beginning of an acknowledged write.
	floor int64
	// ends has the tick of acknowledgement of each put, by its beginning;
	// never for those that were not acknowledged.
	ends map[int64]int64
	// dropped: ends has forgotten some puts, all acknowledged before this.
	dropped int64
}

const (
	never       = math.MaxInt64
	maxRemember = 128 // puts of one key, before those that are old are forgotten
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

// put notes that a put begins, and returns the version that its value must have.
func (l *ledger) put(key string) (version string, begun int64) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.historyLocked(key)
	begun = l.clock.Add(1)
	h.ends[begun] = never
	return "w-" + l.run + "-" + strconv.FormatInt(begun, 10), begun
}

// remove notes that a delete begins.
func (l *ledger) remove() (begun int64) { return l.clock.Add(1) }

// acknowledged notes that a write is in force. One that failed is left as it
// is: it may still come into force.
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

// floor is to be asked for before a read begins, for seen.
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

// seen judges a version that a read, begun at this floor, was answered with.
// Versions of the origin or of another run are always good: what was put may
// have been evicted.
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
	default: // forgotten, but the read began before that
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
