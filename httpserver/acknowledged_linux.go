package httpserver

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acknowledged is how many bytes the other side of a connection has taken so
// far, as its TCP has told this machine's. It is 0 where nothing can be told.
func acknowledged(c net.Conn) (n uint64) {
	sc, is := c.(syscall.Conn)
	if !is {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Bytes_acked
		}
	})
	return n
}
