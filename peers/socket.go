package peers

import "net"

// backlogged is a connection, not of the kernel's, that knows what a read of
// it would find.
type backlogged interface {
	Unread() (n int, ended bool)
}

func unreadOf(c net.Conn) (looked bool, n int, ended bool) {
	b, ok := c.(backlogged)
	if !ok {
		return false, 0, false
	}
	n, ended = b.Unread()
	return true, n, ended
}

// unwrapped is the connection inside those that only count or limit it.
func unwrapped(c net.Conn) net.Conn {
	for {
		outer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = outer.NetConn()
	}
}
