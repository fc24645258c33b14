// Package cache holds a node's entries and decides, for each request, whether they
// answer it: the store, the flight that makes many loads of a key one, freshness,
// and the local half of reads and writes. What it needs from below it declares here
// (Loader). It knows no other nodes: package cluster decides who acts for a key, and
// in which term.
//
// A get is a Read. The store answers it, if the entry is fresh, or if it is stale
// and a refresh runs in the background (freshness.go). Otherwise the get joins the
// load that runs for the key, or starts it (read.go, flights.go, load.go). A write
// is a Write: it marks the load that runs, whose result is not stored then, and
// stores its value (write.go). Counters say how each get was answered (counters.go).
// They hold exactly: against the gets' arrivals, and against the requests that
// origins saw.
//
// All exported methods are safe for concurrent use.
package cache
