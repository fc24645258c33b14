package cli

import (
	"net"
	"os"
	"time"
)

// notifySystemd tells the service manager (Type=notify) the process's state, if
// there is one. It waits at most a second for a manager that does not read.
func notifySystemd(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(lastWords)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}
