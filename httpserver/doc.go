// Package httpserver is the HTTP server under an API: it keeps slow, silent and
// greedy clients from taking a node away from the others. It knows nothing of
// what is served.
//
//   - A Server bounds the connections, and the time that each stage of one may
//     take. The longest idle connection makes room for a new one.
//   - Bodies and Answers bound the memory of request bodies and of answers. The
//     client that has kept its request waiting longest makes room for others.
//   - LimitBody and CheckFraming are for handlers: they refuse a body that is too
//     long, and a request whose end two readers could see at different places.
//   - A LazyDeadline is a request's time limit that costs no timer until it is
//     waited for.
//
// It speaks HTTP/1.0 and 1.1 through package net/http.
package httpserver
