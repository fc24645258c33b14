package nodetest

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
)

// FreeAddress is an address of 127.0.0.1 without a listener. A socket stays
// bound to it until the test ends, so that the system does not give its port to
// a caller that asks for any port. On Linux a server can still listen there:
// servers set SO_REUSEADDR, as this socket does. Elsewhere the port is only
// likely to stay free.
func FreeAddress(t testing.TB) string {
	t.Helper()
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatalf("socket: %v", err)
	}
	release := func() {
		if err := syscall.Close(fd); err != nil {
			t.Errorf("close a socket: %v", err)
		}
	}
	if runtime.GOOS == "linux" {
		t.Cleanup(release)
	} else {
		defer release()
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatalf("SO_REUSEADDR: %v", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("bind: %v", err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatalf("getsockname: %v", err)
	}
	return fmt.Sprint("127.0.0.1:", name.(*syscall.SockaddrInet4).Port)
}
