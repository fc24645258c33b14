package consistenthash

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"unsafe"
)

// Hash maps bytes to a position on the circle. It must be a pure function, be
// safe for concurrent use, and neither change nor keep the bytes it is given.
type Hash func(data []byte) uint32

// PlainCRC32 is CRC32 (IEEE) and nothing else: the hash that golang/groupcache
// uses by default. A Map made with it puts keys where groupcache does, and
// shares its uneven placement.
func PlainCRC32(data []byte) uint32 { return crc32.ChecksumIEEE(data) }

// mixedCRC32 is CRC32 (IEEE) made fit for a ring by fmix32.
func mixedCRC32(data []byte) uint32 { return fmix32(crc32.ChecksumIEEE(data)) }

// fmix32 is the 32-bit finaliser of MurmurHash3 (Austin Appleby, public
// domain): a bijection in which every bit of the input flips every bit of the
// output with a probability close to one half.
func fmix32(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return h
}

// label appends to buf what is hashed for the point with the given index of a
// member, and returns it.
type label func(buf []byte, member string, index int) []byte

// groupcacheLabel is the index in decimal, then the name. It is ambiguous: all
// points i of member "11" coincide with the points i1 of member "1".
func groupcacheLabel(buf []byte, member string, index int) []byte {
	return append(strconv.AppendInt(buf, int64(index), 10), member...)
}

// fixedLabel is the name, then four bytes for the index. Being of fixed length
// the bytes make the label unambiguous for any name. They are the index mixed,
// not the index: CRC32 is affine, so the points of two names of equal length
// are, before the finaliser, the same set shifted by exclusive or, and plain
// indices form a set that such a shift can map onto itself, which would give
// two members all their points in common.
func fixedLabel(buf []byte, member string, index int) []byte {
	return binary.BigEndian.AppendUint32(append(buf, member...), fmix32(uint32(index)))
}

// stringBytes is the string's bytes without a copy. A conversion would
// allocate, since what a func value does with its argument is not known to the
// compiler; Hash promises to leave it alone.
func stringBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
