//go:build !linux

package origin

import "net"

// Only Linux tells what was acknowledged. Elsewhere written bytes count as
// delivered, and only the next use finds a dead connection.

func ackedBytes(net.Conn) (uint64, bool) { return 0, false }

func peek(net.Conn) state { return quiet }

func wasReset(net.Conn) (reset, known bool) { return false, false }
