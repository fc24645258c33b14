package cache

import "math/bits"

// entryOverhead is the cost of an entry besides the bytes of its key, value and strings.
// It is the Entry, the store's item, the boxed key, groupcache/lru's element and record,
// and a share of the maps. 450 to 520 bytes were measured: it depends on how full the
// maps are, and how many entries have become protected. A test compares this with the
// heap.
const entryOverhead = 480

// size is how many bytes of the budget an entry takes.
func size(key Key, e *Entry) int64 {
	n := int64(entryOverhead) + allocated(len(key.Key)) + allocated(len(e.Value)) +
		allocated(len(e.ETag)) + allocated(len(e.ContentType)) + allocated(len(e.ContentEncoding)) +
		allocated(len(e.LastModified)) + allocated(len(e.OriginETag)) + 16*int64(len(e.Tags))
	for _, t := range e.Tags {
		n += allocated(len(t))
	}
	return n
}

// allocated is about how many bytes the runtime takes for n bytes. Above 32 KiB it takes
// whole pages of 8 KiB. Below, it has about eight size classes for each doubling.
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
