// Package cluster takes a request its whole way through the cluster.
//
// A Route says who acts for a key. It is decided in one place (route.go), once for
// each request, and handed down: the key's owner acts or, while the owner is not
// called, the next owner on the ring.
//
// The entry node is the node that a client asks. It answers what it acts for itself,
// and calls the acting node for all else (get.go, write.go, many.go, forward.go). A
// call of another node comes in through serve.go, which passes it on at most once: a
// request makes two hops at most, and cannot loop.
//
// All exported methods are safe for concurrent use.
package cluster
