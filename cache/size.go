package cache

import "math/bits"

// entryOverhead is what an entry costs besides the bytes of its key, value and
// strings: the Entry, the store's item, the boxed key, groupcache/lru's element
// and record, and its share of the maps. 450 to 520 bytes were measured,
// depending on how full the maps are and how many entries have moved from the
// one to the other; a test compares accounting and heap.
const entryOverhead = 480

// size is what an entry is charged to the budget.
func size(key Key, e *Entry) int64 {
	n := int64(entryOverhead) + allocated(len(key.Key)) + allocated(len(e.Value)) +
		allocated(len(e.ETag)) + allocated(len(e.ContentType)) + allocated(len(e.ContentEncoding)) +
		allocated(len(e.LastModified)) + allocated(len(e.OriginETag)) + 16*int64(len(e.Tags))
	for _, t := range e.Tags {
		n += allocated(len(t))
	}
	return n
}

// allocated is about what the runtime takes for n bytes: whole pages of 8 KiB
// above 32 KiB, and below that size classes, of which there are some eight for
// each doubling.
func allocated(n int) int64 {
	step := 8
	switch {
	case n == 0:
		return 0
	case n > 32<<10:
		step = 8 << 10
	case n > 64:
		step = 1 << (bits.Len(uint(n-1)) - 4)
	}
	return int64((n + step - 1) / step * step)
}
