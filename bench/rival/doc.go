// Package rival holds the contestants of the bench that are written in Go, and
// the origin that all contestants load from:
//
//   - bare net/http and bare Gin over Kring's own store: what the routers cost;
//   - Kring's node with an ordinary HTTP/1.1 call between the nodes;
//   - golang/groupcache's HTTPPool behind a small front.
//
// Each is a process of its own: see Serve.
package rival
