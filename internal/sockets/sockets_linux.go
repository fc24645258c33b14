package sockets

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

func unread(c net.Conn) (n int, err error) {
	notAsked := control(c, func(fd uintptr) {
		var b [1]byte
		n, _, err = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case n > 0:
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		case err == nil:
			err = io.EOF
		case errors.Is(err, unix.EAGAIN):
			n, err = 0, nil
		default:
			n = 0 // -1 of an error
		}
	})
	if notAsked != nil && !errors.Is(notAsked, errors.ErrUnsupported) {
		return 0, notAsked
	}
	return n, err
}

// Acknowledged is how many bytes the other side has acknowledged (RFC 4898,
// tcpEStatsAppHCThruOctetsAcked). ok is false if c is not an open TCP connection.
func Acknowledged(c net.Conn) (n uint64, ok bool) {
	info := tcpInfo(c)
	if info == nil {
		return 0, false
	}
	return info.Bytes_acked, true
}

// WasReset reports whether the other side has reset the connection. known is
// false if the system cannot tell.
func WasReset(c net.Conn) (reset, known bool) {
	info := tcpInfo(c)
	return info != nil && info.State == unix.BPF_TCP_CLOSE, info != nil
}

// tcpInfo is nil unless c is an open TCP connection.
func tcpInfo(c net.Conn) (info *unix.TCPInfo) {
	err := control(c, func(fd uintptr) {
		info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil {
		return nil
	}
	return info
}

// control calls f with the socket of c. Its error is errors.ErrUnsupported for a
// connection without a socket. Any other error means that this side has closed it.
func control(c net.Conn, f func(fd uintptr)) error {
	sc, ok := unwrapped(c).(syscall.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	return rc.Control(f)
}
