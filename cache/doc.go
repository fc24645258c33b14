// Package cache holds a node's entries and decides, for each request, whether
// they answer it: the store, the flight that makes many loads of a key one,
// freshness, and the read and write paths. What it needs from below it
// declares here (Loader, Router, Purger); package node joins the parts.
//
// A get asks the Router who acts for the key. If that is this node, it asks
// the store; a fresh entry is the answer, a stale one too while a refresh runs
// in the background (freshness.go). Otherwise it joins the load that runs for
// the key, or starts it (flight.go, lane.go). A write stores its value and
// marks the load that runs, whose result is not stored then (fence.go). How
// each get was answered is counted in the books (books.go), which hold
// exactly: against its arrival, and against the requests that origins saw.
//
// All exported methods are safe for concurrent use.
package cache
