package consistenthash

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"unsafe"
)

// Hash maps bytes to a position on the circle. It must be a pure function and
// safe for concurrent use, and must neither change nor keep the bytes.
type Hash func(data []byte) uint32

// PlainCRC32 is CRC32 (IEEE) alone, the default hash of golang/groupcache. A
// Map with it puts keys where groupcache does, as unevenly as groupcache.
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

// label appends to buf the bytes that are hashed for one point of a member, and
// returns it.
type label func(buf []byte, member string, index int) []byte

// groupcacheLabel is the index in decimal, then the name. It is ambiguous: all
// points i of member "11" coincide with the points i1 of member "1".
func groupcacheLabel(buf []byte, member string, index int) []byte {
	return append(strconv.AppendInt(buf, int64(index), 10), member...)
}

// mixedLabel is the name, then four bytes for the index. It is unambiguous for
// any name, since the last part has a fixed length. The four bytes are the
// scrambled index, because CRC32 is affine: before the finaliser, the points of
// two names of equal length are one set, shifted by exclusive or. Plain indices
// would make that set a linear one. One shift in 2^23 would map it onto itself,
// and the two members would share all their 512 points.
func mixedLabel(buf []byte, member string, index int) []byte {
	return binary.BigEndian.AppendUint32(append(buf, member...), scramble(uint32(index)))
}

// scramble is lowbias32 of the hash prospector, also a bijection. It differs
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
// allocate, because the compiler does not know what a func value does with its
// argument. Hash promises not to change or keep it.
func stringBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
