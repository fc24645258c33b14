// Package loadgen loads a Kring cluster, shows where its answers came from and
// checks them: the demo client behind `kring load`.
//
// A run is a closed loop (so many workers, each sends when its last answer is
// there) or an open loop (so many requests a second, whatever the answers do).
// In an open loop a request's latency counts from the moment at which it was
// meant to be sent: a cluster that stalls is charged for all requests that had
// to wait for it, also for those that could not even be sent meanwhile.
//
// With Config.Verify every body proves which key it belongs to and that it is
// whole, and what the run itself has put or deleted is never seen older than
// the last acknowledged write. At the end the books of all nodes are compared
// with one another and with the origin's.
package loadgen
