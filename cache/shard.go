package cache

import (
	"strings"
	"sync"

	"github.com/golang/groupcache/lru"
)

// shard is a segmented LRU behind a mutex, with a budget. The idea is from Karedla, Love
// and Wherry, "Caching strategies to improve disk system performance", IEEE Computer
// 27(3), 1994. Both segments are groupcache's LRU.
//
// An entry begins on probation. A hit there makes it protected. When the protected
// entries have more than their share, the least recently used of them goes back on
// probation. Evicted entries come from probation, so a scan, whose keys get no second
// hit, leaves the protected entries alone.
//
// A key that is hit again within floor uses of other keys stays. So a shard of few
// entries is one plain LRU. A larger shard makes room on probation: it evicts protected
// entries that were not used for longer than that.
type shard struct {
	budget int64
	floor  int // minProbation; tests choose another

	mu        sync.Mutex // guards all below
	probation *lru.Cache // Key → *item
	protected *lru.Cache // likewise
	tail      *item      // the least recently used protected item, taken out of protected; nil: see tailLocked
	bytes     int64      // the sum of the items' sizes, at no time above budget
	sheltered int64      // the sum of the protected items' sizes
	entries   int64
	evictions uint64
	uses      uint64                // hits and puts
	groups    map[string]*groupList // each group's items; lru cannot be walked
	moving    bool                  // an item that a segment gives up now stays in the shard,
	moved     *item                 // and is this one

	_ [16]byte // to 128 bytes, two cache lines, so that no two shards share one
}

const (
	// protectedShare is the part of a shard's budget that protected entries may
	// have. Of 60 to 95 % it had the best hit ratios: see
	// docs/decisions/0015-admission.md.
	protectedShare = 0.8
	// minProbation is how many entries always have room on probation. It is more than
	// 60 keys that are hit again, and 100 others in between.
	minProbation = 192
	// longIdle is how many uses of the shard, in multiples of its entries, a protected
	// entry stays without one of its own. It outlives a scan of ten times the cache,
	// but does not keep newer keys out for ever.
	longIdle = 16
)

func (s *shard) init() {
	s.floor = minProbation
	s.groups = make(map[string]*groupList)
	s.probation, s.protected = lru.New(0), lru.New(0)
	gone := func(_ lru.Key, v any) {
		if s.moving {
			s.moved = v.(*item)
			return
		}
		s.goneLocked(v.(*item))
	}
	s.probation.OnEvicted, s.protected.OnEvicted = gone, gone
}

// useLocked returns a key's item, makes it the newest of its segment and counts the use.
func (s *shard) useLocked(key Key) *item {
	it := s.findLocked(key)
	if it != nil {
		s.uses++
		it.used = s.uses
	}
	return it
}

func (s *shard) findLocked(key Key) *item {
	if t := s.tail; t != nil && t.key.(Key) == key {
		s.tail = nil
		s.protected.Add(t.key, t)
		return t
	}
	if s.protected.Len() > 0 {
		if v, ok := s.protected.Get(key); ok {
			return v.(*item)
		}
	}
	if v, ok := s.probation.Get(key); ok {
		return v.(*item)
	}
	return nil
}

// tailLocked is the least recently used protected item; nil if no item is protected.
// groupcache's LRU shows its oldest only when that is removed, so tail keeps it.
func (s *shard) tailLocked() *item {
	if s.tail == nil && s.protected.Len() > 0 {
		s.moving = true
		s.protected.RemoveOldest()
		s.tail, s.moved, s.moving = s.moved, nil, false
	}
	return s.tail
}

func (s *shard) get(key Key) *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.useLocked(key)
	if it == nil {
		return nil
	}
	// With fewer entries than this, no room would be left for protected ones beside
	// what probation must have.
	if !it.protected && 4*s.entries > 5*int64(s.floor) {
		s.promoteLocked(it)
	}
	return it.entry
}

// promoteLocked makes an item protected. At most one other item loses its protection for
// it. Otherwise one large item would move many small ones to probation.
func (s *shard) promoteLocked(it *item) {
	s.moving = true
	s.probation.Remove(it.key)
	s.moved, s.moving = nil, false
	s.protected.Add(it.key, it)
	it.protected = true
	s.sheltered += it.size
	if float64(s.sheltered) > protectedShare*float64(s.budget) {
		t := s.tailLocked()
		s.tail, t.protected = nil, false
		s.sheltered -= t.size
		s.probation.Add(t.key, t)
	}
}

func (s *shard) put(key Key, e *Entry) bool {
	n := size(key, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.budget {
		s.removeLocked(key)
		return false
	}
	if it := s.useLocked(key); it != nil {
		// In place: lru.Add calls no OnEvicted for the entry that it replaces.
		s.evictLocked(n-it.size, it)
		s.bytes += n - it.size
		s.groups[key.Group].bytes += n - it.size
		if it.protected {
			s.sheltered += n - it.size
		}
		it.entry, it.size = e, n
		return true
	}
	s.evictLocked(n, nil)
	s.uses++
	// The caller's key may be part of something larger.
	it := &item{key: Key{Group: key.Group, Key: strings.Clone(key.Key)}, entry: e, size: n, used: s.uses}
	s.probation.Add(it.key, it)
	r := s.groups[key.Group]
	if r == nil {
		r = &groupList{}
		s.groups[key.Group] = r
	}
	r.add(it)
	s.bytes += n
	s.entries++
	return true
}

// evictLocked makes room for n more bytes. Spare, if not nil, is the newest item of its
// segment, and stays.
func (s *shard) evictLocked(n int64, spare *item) {
	for s.bytes+n > s.budget {
		s.evictions++
		onProbation := s.probation.Len()
		if spare != nil && !spare.protected {
			onProbation--
		}
		t := s.tailLocked()
		if t == nil || t == spare || onProbation > 0 && !s.idleLocked(t) {
			s.probation.RemoveOldest()
			continue
		}
		s.tail = nil
		s.goneLocked(t)
	}
}

// idleLocked reports whether the oldest protected item is evicted rather than the oldest
// on probation.
func (s *shard) idleLocked(t *item) bool {
	idle := s.uses - t.used
	return idle > longIdle*uint64(s.entries) || s.probation.Len() < s.floor && idle > uint64(s.floor)
}

// remove removes the key's entry. If only is not nil, it removes no other entry.
func (s *shard) remove(key Key, only *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if only != nil {
		if it := s.findLocked(key); it == nil || it.entry != only {
			return
		}
	}
	s.removeLocked(key)
}

func (s *shard) removeLocked(key Key) {
	if t := s.tail; t != nil && t.key.(Key) == key {
		s.tail = nil
		s.goneLocked(t)
		return
	}
	s.protected.Remove(key)
	s.probation.Remove(key)
}

// goneLocked counts an item that leaves the shard. Every item that leaves passes here.
func (s *shard) goneLocked(it *item) {
	s.bytes -= it.size
	if it.protected {
		s.sheltered -= it.size
	}
	s.entries--
	s.groups[it.key.(Key).Group].remove(it)
}

// drop removes a group's entries that match. It lets go of the lock between batches. An
// item that stays becomes the newest of the list, like an item that is added meanwhile.
// So the oldest is always one that drop has not seen, until it has seen all
// that were there at the beginning.
func (s *shard) drop(group string, which func(*Entry) bool) {
	const batch = 256
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.groups[group]
	if r == nil {
		return
	}
	for n := r.entries; n > 0 && r.oldest != nil; n-- {
		if it := r.oldest; which(it.entry) {
			s.removeLocked(it.key.(Key))
		} else {
			r.remove(it)
			r.add(it)
		}
		if n%batch == 0 {
			s.mu.Unlock()
			s.mu.Lock()
		}
	}
}

func (s *shard) usage(total *usage, byGroup map[string]usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total.bytes += s.bytes
	total.entries += s.entries
	total.evictions += s.evictions
	for name, r := range s.groups {
		u := byGroup[name]
		u.bytes += r.bytes
		u.entries += r.entries
		byGroup[name] = u
	}
}
