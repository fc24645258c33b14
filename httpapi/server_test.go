package httpapi

import (
	"testing"
	"time"
)

// No client may hold a connection for ever, in whatever state: each stage has its
// time, which follows limits.request_timeout.
func TestEachStageOfAConnectionHasItsTime(t *testing.T) {
	a := newTestAPI(t)
	for _, timeout := range []time.Duration{time.Second, 30 * time.Second} {
		a.limits.RequestTimeout = timeout
		s := a.Server()
		for name, c := range map[string][2]time.Duration{
			"a header":         {s.ReadHeaderTimeout, min(5*time.Second, timeout+2*time.Second)},
			"a request":        {s.ReadTimeout, timeout + 2*time.Second},
			"an answer":        {s.WriteTimeout, timeout + 62*time.Second},
			"the next request": {s.IdleTimeout, 90 * time.Second},
		} {
			if c[0] != c[1] {
				t.Errorf("with %v for a request: %s may take %v, want %v", timeout, name, c[0], c[1])
			}
		}
		if s.MaxHeaderBytes != 16<<10+3*1024 {
			t.Errorf("%d bytes of header", s.MaxHeaderBytes)
		}
	}
}
