// Package drive is a load generator that takes little CPU time from the servers
// beside it: keep-alive connections on epoll, requests prepared beforehand, and
// answers of which only the necessary bytes are parsed. It checks the status
// and the length of every answer.
//
// A run is a closed loop: each connection sends its next request when its last
// answer is complete. The package works only on Linux.
package drive
