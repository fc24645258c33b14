package httpapi

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acknowledged is how many bytes the other side of a connection has taken so
// far, as its TCP has told this machine's. Not ok: there is no telling.
func acknowledged(c net.Conn) (n uint64, ok bool) {
	sc, is := c.(syscall.Conn)
	if !is {
		return 0, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n, ok = info.Bytes_acked, true
		}
	})
	return n, ok && err == nil
}
