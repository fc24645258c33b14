// Package rival holds the bench's contestants that are written in Go, and the
// origin of all contestants:
//
//   - bare net/http and bare Gin over Kring's own store: the cost of the
//     routers;
//   - Kring's node with an ordinary HTTP/1.1 call between the nodes;
//   - golang/groupcache's HTTPPool behind a small front.
//
// Each runs in a process of its own: see Serve.
package rival
