package nodetest_test

import (
	"net"
	"testing"

	"kring/node/nodetest"
)

// A free address is refused to who dials it, stays free whatever else the system
// gives away, and is there for who listens, again and again.
func TestFreeAddressStaysFree(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		address := nodetest.FreeAddress(t)
		if seen[address] {
			t.Errorf("%s was given twice", address)
		}
		seen[address] = true
		if c, err := net.Dial("tcp", address); err == nil {
			t.Errorf("somebody listens at %s", address)
			c.Close()
		}
	}
	for address := range seen {
		for range 2 {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			if there, err := l.Accept(); err == nil {
				there.Close() // first: what waits is at the server's port
			}
			c.Close()
			l.Close()
		}
	}
}
