package nodetest_test

import (
	"net"
	"testing"

	"kring/node/nodetest"
)

// A free address refuses connections and stays free while the system gives out
// other ports. A server can listen there again and again.
func TestFreeAddressStaysFree(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		address := nodetest.FreeAddress(t)
		if seen[address] {
			t.Errorf("%s was given twice", address)
		}
		seen[address] = true
		if c, err := net.Dial("tcp", address); err == nil {
			t.Errorf("a server listens at %s", address)
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
				there.Close() // first, because it uses the server's port
			}
			c.Close()
			l.Close()
		}
	}
}
