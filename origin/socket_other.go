//go:build !linux

package origin

import "net"

// Only Linux tells what was acknowledged: elsewhere, what was written counts
// as delivered, and a dead connection is found by using it.

func ackedBytes(net.Conn) (uint64, bool) { return 0, false }

func peek(net.Conn) state { return quiet }

func wasReset(net.Conn) (reset, known bool) { return false, false }
