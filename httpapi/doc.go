// Package httpapi is the HTTP API of a node: the routes of clients and of
// operators, and the route by which the links of other nodes come in. The file
// openapi.yaml says what each route means. The other packages decide what a
// request may do; this one only translates. Package httpserver is under it.
//
// It is the only package that knows Gin. Gin routes on the escaped path and
// never cleans or redirects, and keys are taken from the path as it was sent.
//
// An API is safe for concurrent use. It listens on nothing by itself: see
// API.Server and API.Listener.
package httpapi
