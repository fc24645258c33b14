// Package client speaks to a Kring cluster over HTTP. Any node of a cluster
// answers for any key. A Client chooses an entry node for each request by a
// policy of package balance, and asks another node when that one does not
// answer.
//
// The client tries again, on a node that it has not asked yet:
//
//   - reads (get, batch get): after a connection that could not be made or
//     broke; after a truncated answer; after a try that took longer than
//     PerTryTimeout, or whose node was silent for SilenceTimeout; after a 2xx
//     or 3xx that no node sent (it has neither Kring-Node nor Cache-Status);
//     after a 502, 503 or 504 that no node sent (but a proxy); after a node's
//     own 503 `draining` or `cut-off`; and once after `overloaded`. When no
//     node answers, a node that was given up for its silence gets the rest of
//     the time: it may only have been busy;
//   - writes without a condition (put, delete, purge): the same, but not
//     after a time-out or a proxy's 502 or 504. A write that stalls somewhere
//     may still take effect, and must not overtake its own repetition;
//   - conditional puts: only when the connection was not made or the node
//     refused before it acted (503). After other failures the first try may
//     have met the condition and made it false.
//
// A node's report about the origin (502 or 504 with a code) is the answer of
// the whole cluster. No other node would have a better one, so it is returned
// at once.
//
// A Client is safe for concurrent use. An error that a node answered is an
// *Error and matches the sentinels of this package with errors.Is. When no node
// answered, the error matches ErrUnavailable. When the caller's context ends
// before a call, the error is the context's.
package client
