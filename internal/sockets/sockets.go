// Package sockets asks the kernel what it knows of a connection, and takes
// nothing out of it.
package sockets

import "net"

// inMemory is a connection without a socket that knows what a read of it would
// find.
type inMemory interface {
	Unread() (n int, err error)
}

// Unread is how many bytes a read of c would find at once. Without bytes, err is
// the error that a read would give at once: io.EOF if the other side has closed,
// net.ErrClosed if this side has. Where this cannot be known, Unread returns 0 and
// nil.
func Unread(c net.Conn) (n int, err error) {
	if m, ok := c.(inMemory); ok {
		return m.Unread()
	}
	return unread(c)
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
