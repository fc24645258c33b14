// Package client speaks to a Kring cluster over HTTP. Any node of a cluster
// answers for any key, so a Client chooses an entry node for each request by a
// policy of package balance, and asks another one when that one does not
// answer.
//
// What is tried again, on a node that was not asked yet:
//
//   - reads (get, batch get): after a connection that could not be made or
//     broke, an answer cut short, a try that took longer than PerTryTimeout or
//     whose node was silent for SilenceTimeout, an answer of 2xx or 3xx that is
//     no node's (it has neither Kring-Node nor Cache-Status), a 502, 503 or 504
//     that is no node's own (a proxy's), and a node's own 503 `draining` or
//     `cut-off`; `overloaded` once. When nobody answers, a node that was given up for its
//     silence gets what is left of the time: it may only have been busy;
//   - writes without a condition (put, delete, purge): the same, except that
//     after a time-out or a stranger's 502 or 504 they are not repeated: what
//     stalls somewhere may still take effect, and a repeated write that is
//     answered must not be overtaken by its own first try;
//   - conditional puts: only when the connection was not made or the node
//     refused before it acted (503), for a condition may be false because the
//     first try has met it.
//
// What a node says of the origin (502, 504 with a code) is the cluster's
// answer, and no other node would give a better one: it is returned at once.
//
// A Client is safe for concurrent use. Errors that a node answered are *Error
// and match the sentinels of this package with errors.Is; when no node
// answered, the error matches ErrUnavailable; when the caller's context is over
// before a call, it is the context's.
package client
