package peers

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/link"
	"kring/peers/memnet"
)

// A node that the others do not hear is not ready: their clients' requests for
// its keys would go past it.
func TestNotReadyBeforeTheOthersHearThisNode(t *testing.T) {
	for name, test := range map[string]struct {
		says  []string // the members that the other hears
		ready bool
	}{
		"nobody":         {nil, false},
		"somebody else":  {[]string{"n1", "n00", "n"}, false},
		"this node":      {[]string{"n0"}, true},
		"this node, too": {[]string{"n1", "n0"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := memnet.New()
				good, other := pair(t, n)
				var hears atomic.Pointer[[]string]
				hears.Store(&test.says)
				byHand(t, n, "n1:1", other, hand{pong: func() []byte { return appendPong(nil, 0, *hears.Load()) }})
				good.Start(idle{})
				defer good.Close()
				<-time.After(readyWithin / 2)
				ok, reason := good.Ready()
				if ok != test.ready || !ok && !strings.Contains(reason, "n1 does not hear this node") {
					t.Fatalf("ready %v: %s", ok, reason)
				}
				hears.Store(&[]string{"n0"})
				<-time.After(2 * link.PingIdle)
				if ok, reason := good.Ready(); !ok {
					t.Errorf("heard, and not ready: %s", reason)
				}
			})
		})
	}
}
