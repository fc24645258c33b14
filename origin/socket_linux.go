package origin

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ackedBytes is how many bytes the other side has acknowledged (RFC 4898,
// tcpEStatsAppHCThruOctetsAcked). ok is false if c is not a TCP connection.
func ackedBytes(c net.Conn) (n uint64, ok bool) {
	onSocket(c, func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n, ok = info.Bytes_acked, true
		}
	})
	return n, ok
}

// peek says what a read of the socket would find now. A connection without a
// socket is quiet.
func peek(c net.Conn) (s state) {
	onSocket(c, func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case n > 0:
			s = noisy
		case err == nil:
			s = closed
		case !errors.Is(err, unix.EAGAIN):
			s = failed
		}
	})
	return s
}

// wasReset reports whether the other side has reset the connection. known is
// false if the system cannot tell.
func wasReset(c net.Conn) (reset, known bool) {
	onSocket(c, func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			reset, known = info.State == unix.BPF_TCP_CLOSE, true
		}
	})
	return reset, known
}

func onSocket(c net.Conn, f func(fd uintptr)) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return
	}
	// An error means that this side has closed the connection. f was then not
	// called, and the result is that of a connection without a socket.
	_ = rc.Control(f)
}
