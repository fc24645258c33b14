package cache

import "github.com/golang/groupcache/lru"

// groupList lists the items of one group, in the order in which they were added.
type groupList struct {
	oldest, newest *item
	usage
}

func (l *groupList) add(it *item) {
	it.old = l.newest
	if l.newest != nil {
		l.newest.newer = it
	} else {
		l.oldest = it
	}
	l.newest = it
	l.bytes += it.size
	l.entries++
}

func (l *groupList) remove(it *item) {
	if it.old != nil {
		it.old.newer = it.newer
	} else {
		l.oldest = it.newer
	}
	if it.newer != nil {
		it.newer.old = it.old
	} else {
		l.newest = it.old
	}
	it.newer, it.old = nil, nil
	l.bytes -= it.size
	l.entries--
}

// item is the place of a key's entry in a shard. An overwrite replaces the entry.
type item struct {
	key        lru.Key // a Key, boxed once and shared with the LRU
	entry      *Entry
	size       int64
	newer, old *item  // neighbours in the group's list
	used       uint64 // the shard's uses when it was last put or hit
	protected  bool
}
