// Package consistenthash places keys on members so that a member that joins or
// leaves moves only the keys of its own arcs, about 1/n of them, where
// hash(key) % n would move nearly all (Karger et al., STOC 1997).
//
// A hash maps bytes to a circle of 2^32 positions. Each member has a number of
// points on it, its virtual nodes, which even out the members' parts of the
// circle. A key belongs to the member of the first point at or after the key's
// own position; after the last position the first one follows. The next owners
// are the members of the points after that.
//
// The ring depends only on its members and their weights, not on the order in
// which they joined: where points of two members coincide, the member whose
// name is smaller in byte order wins.
//
// With a nil Hash, positions are those of CRC32 followed by an avalanche
// finaliser. CRC32 alone is affine: similar names get similar points, and more
// points do not help. With a Hash of the caller, such as PlainCRC32, points and
// keys are where golang/groupcache's consistenthash puts them.
//
// A Map is safe for concurrent use. Readers work on an immutable snapshot and
// never wait, neither for writers nor for each other.
package consistenthash
