// Package peers calls the other nodes of a cluster.
//
// Two values say what is known of them, and each is immutable and swapped
// whole. The membership.View is what all nodes agree on: members and ring. The
// standings are what this node thinks of the members: which circuits are open.
// Package cluster decides by both who acts for a key, and calls that member.
//
// A node keeps one outgoing link to each other member for its own calls, and
// answers theirs on the links that they opened. Package link has what a link does
// for any call; here is what the calls say, what they share, and what their answers
// mean for the books and for the circuits.
//
// A slow member is told from a silent one: while a call waits for a load its caller
// is told so (loading), and the reader of each link answers pings whatever its calls
// do. Only silence opens a member's circuit. A pong closes it.
//
// The package neither dials nor listens: Options.Dial opens connections and Accept
// receives them. All exported methods are safe for concurrent use.
package peers
