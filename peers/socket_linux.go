package peers

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread is how many bytes a read of c would find at once, and whether it
// would find the end of the connection instead.
func unread(c net.Conn) (n int, ended bool) {
	if looked, n, ended := unreadOf(c); looked {
		return n, ended
	}
	sc, ok := unwrapped(c).(syscall.Conn)
	if !ok {
		return 0, false
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return 0, true // closed, here
	}
	err = rc.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil || n > 0 {
			return
		}
		var b [1]byte
		got, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		n, ended = max(got, 0), got == 0 && err == nil
	})
	return n, ended || err != nil
}
