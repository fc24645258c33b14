// Package link carries calls between two nodes over one connection.
//
// A link is an HTTP request that was upgraded, with one handshake (versions,
// identity, mutual proof of the secret) and then frames. The node that dialled
// makes calls, and has the Outgoing end. The other node answers them, in any order,
// and has the Incoming end. A node that wants to call back dials a link of its own.
//
// What a call asks and what an answer says is opaque here: bytes that a Caller
// appends and an Answerer reads, and the reverse. So is what a pong says. A big value
// follows its frame in chunks, between other frames, so that it delays them by one
// chunk at most. A link knows slots, deadlines, cancels and silence; it does not know
// members, circuits or caches.
//
// The reader of a link waits for nobody. It answers pings whatever the calls do, so
// that a slow call is told from a silent node. Methods that a Caller, an Answerer, a
// Handler or a Peer have for the reader must not wait either.
//
// The package neither dials nor listens. All exported methods are safe for
// concurrent use unless they say otherwise.
package link
