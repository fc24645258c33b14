// Package peers calls the other nodes of a cluster.
//
// Two values say what is known of them, and each is immutable and swapped
// whole. The membership.View is what all nodes agree on: members and ring. The
// standings are what this node thinks of the members: which circuits are open.
// One function (acting) says who acts for a key: its owner on the ring or,
// while that member's circuit is open, the next owner whose circuit is closed.
//
// A node keeps one outgoing link to each other member for its own calls and
// answers theirs on the links that they opened. A link is an HTTP request that
// was upgraded, with one handshake (versions, cluster, ring, mutual proof of
// the secret) and then multiplexed frames, answered in any order.
//
// Slow and silent are told apart: a call that waits for a load is told so
// (loading), and the reader of each link answers pings whatever its handlers
// do. Only silence opens a member's circuit; a pong closes it.
//
// Nothing here dials or listens: Options.Dial opens connections and Accept
// receives them. All exported methods are safe for concurrent use.
package peers
