package link

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// Path is the route of a link, and UpgradeName its protocol in the header Upgrade.
	Path        = "/v1/peer-link"
	UpgradeName = "kring-link/1"

	handshakeTimeout = time.Second
)

// Greet makes a link of a connection that was dialled to the node target at host:
// it asks for the upgrade and makes the handshake. What comes next is in the reader.
func (n *Node) Greet(conn net.Conn, host, target string) (*Claim, *bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, nil, fmt.Errorf("upgrade: %w", err)
	}
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", Path, host, UpgradeName)
	if err != nil {
		return nil, nil, fmt.Errorf("upgrade: %w", err)
	}
	r := bufio.NewReaderSize(conn, ChunkLen)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("upgrade: %w", err)
	}
	response.Body.Close() // a 101 has none; of anything else the connection is dropped
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, nil, fmt.Errorf("upgrade: status %d", response.StatusCode)
	}
	c, err := n.greet(duplex{r, conn}, target)
	if err != nil {
		return nil, nil, fmt.Errorf("handshake: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, nil, fmt.Errorf("upgrade: %w", err)
	}
	return c, r, nil
}

// Welcome makes a link of a connection that another node dialled and that an HTTP
// server has handed over: it answers the upgrade and makes the handshake. admit may
// refuse a node that has passed all other checks. The claim has as much as the node has
// said, also when there is an error.
func (n *Node) Welcome(conn net.Conn, r *bufio.Reader, admit func(c *Claim) error) (*Claim, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return &Claim{}, fmt.Errorf("upgrade: %w", err)
	}
	_, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", UpgradeName)
	if err != nil {
		return &Claim{}, fmt.Errorf("upgrade: %w", err)
	}
	c, err := n.welcome(duplex{r, conn}, admit)
	if err != nil {
		return c, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return c, fmt.Errorf("upgrade: %w", err)
	}
	return c, nil
}

// duplex is a connection whose reading side is buffered.
type duplex struct {
	io.Reader
	io.Writer
}
