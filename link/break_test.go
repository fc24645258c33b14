package link

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

// brittle is a connection that breaks at its nth write.
type brittle struct {
	net.Conn
	writes *int
}

var errBroken = errors.New("broken")

func (b brittle) Write(p []byte) (int, error) {
	if *b.writes--; *b.writes < 0 {
		b.Close()
		return 0, errBroken
	}
	return b.Conn.Write(p)
}

// A connection may break at any message of the handshake, on either side. Both sides
// notice.
func TestAConnectionMayBreakAtAnyMessage(t *testing.T) {
	for n := range 3 {
		for _, refused := range []bool{false, true} {
			near, far := net.Pipe()
			listener := thisNode()
			if refused {
				listener.Secret = "s"
			}
			welcomed := make(chan error)
			go func() {
				defer far.Close()
				r := bufio.NewReader(far)
				if _, err := http.ReadRequest(r); err != nil {
					welcomed <- err
					return
				}
				_, err := listener.Welcome(brittle{far, new(n)}, r, func(*Claim) error { return nil })
				welcomed <- err
			}()
			_, _, err := thatNode().Greet(near, "n0:1", "n0")
			near.Close()
			if werr := <-welcomed; err == nil || werr == nil {
				t.Errorf("the listener's write %d breaks (refused: %v): %v, %v", n, refused, err, werr)
			}
		}
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			r := bufio.NewReader(far)
			if _, err := http.ReadRequest(r); err == nil {
				_, _ = thisNode().Welcome(far, r, func(*Claim) error { return nil })
			}
			_, _ = io.Copy(io.Discard, far)
		}()
		if _, _, err := thatNode().Greet(brittle{near, new(n)}, "n0:1", "n0"); !errors.Is(err, errBroken) {
			t.Errorf("the dialler's write %d breaks: %v", n, err)
		}
	}
}
