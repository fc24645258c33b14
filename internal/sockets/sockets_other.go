//go:build !linux

package sockets

import "net"

// Only Linux tells. Elsewhere written bytes count as delivered, and only the next
// use finds a dead connection.

func unread(net.Conn) (int, error) { return 0, nil }

func Acknowledged(net.Conn) (n uint64, ok bool) { return 0, false }

func WasReset(net.Conn) (reset, known bool) { return false, false }
