// Package httpapi is the HTTP surface of a node: the clients' routes, the
// route that other nodes' links come in by, and the operators' routes. What a
// route means is written in openapi.yaml; what may be asked of the cache is
// the cache's business, and this package only spells it.
//
// It is the only package that knows Gin. Gin routes on the escaped path and
// never cleans or redirects; keys are taken from the path that was sent.
//
// An API is safe for concurrent use. It listens on nothing by itself: see
// API.Server and API.Listener.
package httpapi
