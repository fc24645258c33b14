// Package drive is a load generator that costs the servers beside it as little
// as it can: keep-alive connections on epoll, requests made beforehand, and
// answers that are looked at byte by byte only where it matters. It checks the
// status and the length of every answer.
//
// A run is a closed loop: each connection sends its next request when the
// answer to the last one is whole. The package works on Linux only.
package drive
