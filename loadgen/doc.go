// Package loadgen loads a Kring cluster, shows where its answers came from and
// checks them. It is the demo client of `kring load`.
//
// A run is a closed loop (a number of workers, each of which sends when it has
// its last answer) or an open loop (a number of requests a second, whatever the
// answers do). In an open loop a request's latency counts from the moment when
// it was due. So a stall of the cluster is charged to all requests that had to
// wait, also to those that could not even be sent meanwhile.
//
// With Config.Verify every body proves its key and that it is whole, and a read
// never sees a value that is older than the run's last acknowledged write. At
// the end the books of all nodes are compared with one another and with the
// origin's.
package loadgen
