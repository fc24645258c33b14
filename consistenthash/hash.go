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

// mixedCRC32 is CRC32 (IEEE) made fit for a ring by avalanche.
func mixedCRC32(data []byte) uint32 { return avalanche(crc32.ChecksumIEEE(data)) }

// avalanche is triple32 of Chris Wellons' hash prospector (public domain): a
// bijection in which every bit of the input flips every bit of the output with
// a probability close to one half.
func avalanche(x uint32) uint32 {
	x ^= x >> 17
	x *= 0xed5ad4bb
	x ^= x >> 11
	x *= 0xac4c1b51
	x ^= x >> 15
	x *= 0x31848bab
	x ^= x >> 14
	return x
}

// label appends to buf what is hashed for the point with the given index of a
// member, and returns it.
type label func(buf []byte, member string, index int) []byte

// groupcacheLabel is the index in decimal, then the name. It is ambiguous: all
// points i of member "11" coincide with the points i1 of member "1".
func groupcacheLabel(buf []byte, member string, index int) []byte {
	return append(strconv.AppendInt(buf, int64(index), 10), member...)
}

// mixedLabel is the name, then four bytes for the index: unambiguous for any
// name, since the last part has a fixed length. The four bytes are the index
// scrambled, not the index. CRC32 is affine, so the points of two names of
// equal length are, before the finaliser, one set shifted by exclusive or;
// plain indices make that set a linear one, which one shift in 2^23 maps onto
// itself, and the two members have all their 512 points in common.
func mixedLabel(buf []byte, member string, index int) []byte {
	return binary.BigEndian.AppendUint32(append(buf, member...), scramble(uint32(index)))
}

// scramble is lowbias32 of the hash prospector, a bijection too. It differs
// from avalanche so that the same steps are not taken twice.
func scramble(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	x ^= x >> 16
	return x
}

// stringBytes is the string's bytes without a copy. A conversion would
// allocate, since what a func value does with its argument is not known to the
// compiler; Hash promises to leave it alone.
func stringBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
