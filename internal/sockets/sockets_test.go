package sockets_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"kring/internal/sockets"
)

// tcpPair is the two ends of a real connection.
func tcpPair(t *testing.T) (here, there *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// poll waits until a condition about sockets holds, which the kernel sees to.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s:", what)
		}
	}
}

// outer hides a connection as those do that count it.
type outer struct{ net.Conn }

func (o outer) NetConn() net.Conn { return o.Conn }

func unread(c net.Conn, n int, err error) bool {
	got, gotErr := sockets.Unread(c)
	return got == n && errors.Is(gotErr, err)
}

func TestUnread(t *testing.T) {
	here, there := tcpPair(t)
	if !unread(here, 0, nil) {
		t.Error("nothing was sent")
	}
	if _, err := io.WriteString(there, "abc"); err != nil {
		t.Fatal(err)
	}
	poll(t, "three bytes", func() bool { return unread(outer{here}, 3, nil) })
	if _, err := io.ReadFull(here, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if !unread(here, 0, nil) {
		t.Error("all was read")
	}
	if _, err := io.WriteString(there, "d"); err != nil {
		t.Fatal(err)
	}
	there.Close()
	poll(t, "the last byte", func() bool { return unread(here, 1, nil) })
	if _, err := io.ReadFull(here, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	poll(t, "the end", func() bool { return unread(here, 0, io.EOF) })
	here.Close()
	if !unread(here, 0, net.ErrClosed) {
		t.Error("closed on this side")
	}

	noSocket, _ := net.Pipe()
	noSocket.Close()
	if !unread(noSocket, 0, nil) {
		t.Error("what is no socket tells nothing")
	}
}

func TestReset(t *testing.T) {
	here, there := tcpPair(t)
	if reset, known := sockets.WasReset(here); reset || !known {
		t.Errorf("of an open connection: %v, %v", reset, known)
	}
	if err := there.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	there.Close()
	poll(t, "the reset", func() bool { reset, known := sockets.WasReset(here); return reset && known })
	if !unread(here, 0, syscall.ECONNRESET) {
		t.Error("no reset to be read")
	}
	here.Close()
	if reset, known := sockets.WasReset(here); reset || known {
		t.Errorf("closed on this side: %v, %v", reset, known)
	}
}

func TestAcknowledged(t *testing.T) {
	here, _ := tcpPair(t)
	before, ok := sockets.Acknowledged(here)
	if !ok {
		t.Fatal("not known")
	}
	if _, err := io.WriteString(here, "abc"); err != nil {
		t.Fatal(err)
	}
	poll(t, "three bytes acknowledged", func() bool { n, ok := sockets.Acknowledged(here); return ok && n-before == 3 })

	noSocket, _ := net.Pipe()
	if n, ok := sockets.Acknowledged(noSocket); ok || n != 0 {
		t.Errorf("of a pipe: %d", n)
	}
}

func TestShortage(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", errno)}
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no descriptors":    {dial(syscall.EMFILE), true},
		"none for a lookup": {&net.DNSError{Err: "dial udp 127.0.0.1:53: socket: too many open files", Name: "a.test"}, true},
		"refused":           {dial(syscall.ECONNREFUSED), false},
		"no such name":      {&net.DNSError{Err: "no such host", Name: "a.test", IsNotFound: true}, false},
	} {
		if got := sockets.Shortage(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
