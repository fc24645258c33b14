// Package cache holds a node's entries and decides, for each request, whether
// they answer it: the store, the flight that makes many loads of a key one,
// freshness, and the read and write paths. What it needs from below it
// declares here (Loader, Router, Purger); package node joins the parts.
//
// All exported methods are safe for concurrent use.
package cache
