package cache

import (
	"hash/maphash"
	"slices"
	"sync"
)

const maxShards = 64

// store holds entries in two classes, values and negative entries. Each has its own
// budget, so that a flood of missing keys evicts no value. A key is in at most one class.
//
// Two writers of one key must exclude each other: they hold the lock of the key's
// flights. Readers need no lock.
type store struct {
	seed   maphash.Seed
	values class
	absent class

	// walking is held by a goroutine that goes through the group lists. There must be
	// only one, because it changes their order.
	walking sync.Mutex
}

func newStore(cfg Config) *store {
	absent := int64(float64(cfg.MaxBytes) * cfg.NegativeShare)
	return &store{
		seed:   maphash.MakeSeed(),
		values: newClass(cfg.MaxBytes-absent, cfg.MaxValueBytes+entryOverhead),
		absent: newClass(absent, int64(cfg.MaxKeyBytes)+entryOverhead),
	}
}

// hash spreads keys over shards, locks and counters. It leaves the group out.
func (s *store) hash(key string) uint64 { return maphash.String(s.seed, key) }

// get returns the entry of a key, of any age and term, and makes it the most recently
// used. It returns nil for a key without one.
func (s *store) get(h uint64, key Key) *Entry {
	if e := s.values.shard(h).get(key); e != nil {
		return e
	}
	return s.absent.shard(h).get(key)
}

// find returns a key's entry if it was stored in the given term. An entry of an
// earlier term is removed. An entry of a later term stays: the caller's own term has
// ended.
func (s *store) find(h uint64, key Key, term Term) *Entry {
	e := s.get(h, key)
	switch {
	case e == nil || e.Term == term:
		return e
	case e.Term < term && term != Unowned:
		s.removeEntry(h, key, e)
	}
	return nil
}

// put replaces a key's entry by e, and reports whether e is stored. An entry that is
// larger than a shard's budget is not stored, and the old one is removed all the same.
func (s *store) put(h uint64, key Key, e *Entry) bool {
	to, other := &s.values, &s.absent
	if e.Negative {
		to, other = other, to
	}
	// A reader may find neither now. It looks again under the lock that the writer holds.
	other.shard(h).remove(key, nil)
	return to.shard(h).put(key, e)
}

// fits reports whether put would store e.
func (s *store) fits(h uint64, key Key, e *Entry) bool {
	c := &s.values
	if e.Negative {
		c = &s.absent
	}
	return size(key, e) <= c.shard(h).budget
}

func (s *store) remove(h uint64, key Key) {
	s.values.shard(h).remove(key, nil)
	s.absent.shard(h).remove(key, nil)
}

// removeEntry removes the key's entry if that is still e.
func (s *store) removeEntry(h uint64, key Key, e *Entry) {
	if e.Negative {
		s.absent.shard(h).remove(key, e)
		return
	}
	s.values.shard(h).remove(key, e)
}

// dropGroup removes all entries that the group has at the time of the call.
func (s *store) dropGroup(group string) {
	s.drop(group, func(*Entry) bool { return true })
}

// dropTags removes those of them that carry one of the tags. It looks at each entry: an
// index would cost every entry memory for a rare operation.
func (s *store) dropTags(group string, tags []string) {
	set := make(map[string]bool, len(tags))
	for _, t := range tags {
		set[t] = true
	}
	s.drop(group, func(e *Entry) bool {
		return slices.ContainsFunc(e.Tags, func(t string) bool { return set[t] })
	})
}

func (s *store) drop(group string, which func(*Entry) bool) {
	s.walking.Lock()
	defer s.walking.Unlock()
	for _, c := range []*class{&s.values, &s.absent} {
		for i := range c.shards {
			c.shards[i].drop(group, which)
		}
	}
}

// usage is how much a part of the store holds.
type usage struct {
	bytes     int64
	entries   int64
	evictions uint64
}

// usage returns the whole store's usage, and adds each group's to groups.
func (s *store) usage(groups map[string]usage) usage {
	var total usage
	for _, c := range []*class{&s.values, &s.absent} {
		for i := range c.shards {
			c.shards[i].usage(&total, groups)
		}
	}
	return total
}

// usage is one class's.
func (c *class) usage() usage {
	var total usage
	groups := make(map[string]usage)
	for i := range c.shards {
		c.shards[i].usage(&total, groups)
	}
	return total
}

// class is a budget, split over shards.
type class struct {
	budget int64
	shards []shard
	mask   uint64
}

// newClass makes a power of two of shards. Each has room for at least 64 of the largest
// entries, so that a little more load on one shard does not matter. A small budget is
// one shard.
func newClass(budget, largest int64) class {
	n := int64(1)
	for n < maxShards && 2*n*64*max(largest, 1) <= budget {
		n *= 2
	}
	c := class{budget: budget, shards: make([]shard, n), mask: uint64(n - 1)}
	for i := range c.shards {
		s := &c.shards[i]
		s.budget = budget / n
		if int64(i) < budget%n {
			s.budget++
		}
		s.init()
	}
	return c
}

// shard takes the hash's high bits; flights take the low ones.
func (c *class) shard(h uint64) *shard { return &c.shards[(h>>40)&c.mask] }
