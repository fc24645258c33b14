// Package balance chooses which endpoint of a pool gets the next request.
//
// A pool is a named list of endpoints and a policy. An endpoint is eligible
// when configuration and operator allow it and its weight is not 0; it is
// healthy until requests or probes say otherwise. The policy chooses among the
// endpoints that are both; when more are unhealthy than may be ejected at
// once, it chooses among all eligible ones (panic: a wrong guess about health
// must not turn a bad day into an outage). What is not eligible is never chosen.
//
// All exported methods are safe for concurrent use.
package balance
