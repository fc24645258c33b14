package cli

import (
	"net"
	"os"
	"time"
)

// notifySystemd tells the service manager of the process's state, if there is
// one (Type=notify). A manager that does not read its messages is waited for a
// second.
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
