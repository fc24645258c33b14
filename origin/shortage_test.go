package origin_test

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

// A node without descriptors or ports says so. It asks no second endpoint in
// vain, and ejects none.
func TestAShortageOfThisMachineBlamesNoEndpoint(t *testing.T) {
	dialError := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", errno)}
	}
	for name, c := range map[string]struct {
		err   error
		want  *cache.Error
		blame bool
	}{
		"no descriptors":         {dialError(syscall.EMFILE), cache.ErrOverloaded, false},
		"none on the machine":    {dialError(syscall.ENFILE), cache.ErrOverloaded, false},
		"no ports":               {dialError(syscall.EADDRNOTAVAIL), cache.ErrOverloaded, false},
		"no buffers":             {dialError(syscall.ENOBUFS), cache.ErrOverloaded, false},
		"none for the resolver":  {&net.DNSError{Err: "dial udp 127.0.0.1:53: socket: too many open files", Name: "a.test"}, cache.ErrOverloaded, false},
		"but refused":            {dialError(syscall.ECONNREFUSED), cache.ErrOriginFailed, true},
		"but no such name":       {&net.DNSError{Err: "no such host", Name: "a.test", IsNotFound: true}, cache.ErrOriginFailed, true},
		"but no route to a host": {dialError(syscall.EHOSTUNREACH), cache.ErrOriginFailed, true},
	} {
		t.Run(name, func(t *testing.T) {
			dials := 0
			s := start(t, "/{key}", []string{"http://a.test"}, func(b *balance.Config, o *origin.Options) {
				b.Health.MaxFails, b.MaxEjected = 1, 1
				o.Dial = func(context.Context, string, string) (net.Conn, error) {
					dials++
					return nil, c.err
				}
			})
			r := s.load(t, "k", nil)
			r.mustFail(t, c.want)
			if r.sent != 0 || dials != 1 {
				t.Errorf("sent %d, dialled %d times", r.sent, dials)
			}
			if healthy := s.pool.Status().Endpoints[0].Healthy; healthy == c.blame {
				t.Errorf("healthy: %v", healthy)
			}
		})
	}
}
