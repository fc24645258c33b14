//go:build !linux

package peers

import "net"

// Elsewhere only connections that say so themselves tell what waits unread.
func unread(c net.Conn) (n int, ended bool) {
	_, n, ended = unreadOf(c)
	return n, ended
}
