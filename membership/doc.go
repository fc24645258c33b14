// Package membership says who is in the cluster and who owns a key.
//
// All nodes agree on the View: its number, its members, and the ring over them.
// Today the only view is the static list of the configuration. What one node
// thinks of the others (links, circuits, outages) is not part of it; that is in
// package peers.
//
// The package does no I/O and has no clock. A View is immutable and safe for
// concurrent use.
package membership
