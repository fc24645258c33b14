package peers_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/peers"
)

// watched is a log that looks, when a line comes, whether it is true already.
type watched struct {
	slog.Handler
	look func(msg, peer string)
}

func (w watched) Enabled(context.Context, slog.Level) bool { return true }

func (w watched) Handle(_ context.Context, r slog.Record) error {
	peer := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "peer" {
			peer = a.Value.String()
		}
		return true
	})
	w.look(r.Message, peer)
	return nil
}

// A line of the log may take its time. The change that it tells of comes before it.
func TestStateChangesBeforeTheLineThatTellsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *members
		var mu sync.Mutex // guards seen
		seen := map[string]int{}
		c = build(t, 3, func(i int, o *peers.Options) {
			if i > 0 {
				return
			}
			o.Log = slog.New(watched{slog.DiscardHandler, func(msg, peer string) {
				mu.Lock()
				seen[msg]++
				mu.Unlock()
				n := c.nodes[0]
				if ready, _ := n.Ready(); msg == "no longer ready" && ready {
					t.Errorf("%s, and it is", msg)
				}
				open, _ := n.open(peer)
				if msg == "peer is not called" && !open || msg == "peer is called again" && open {
					t.Errorf("%s: open is %v", msg, open)
				}
			}})
		})
		for _, n := range c.nodes {
			n.run()
		}
		c.awaitReady()
		<-time.After(time.Second)
		c.nodes[1].kill()
		<-time.After(5 * time.Second)
		c.nodes[1] = c.node(1)
		c.nodes[1].run()
		<-time.After(10 * time.Second)
		for i := 1; i <= 2; i++ { // until most refuse it
			c.nodes[i].kill()
			c.nodes[i] = c.node(i, named("other"))
			c.nodes[i].run()
			<-time.After(10 * time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, msg := range []string{"peer is not called", "peer is called again", "no longer ready"} {
			if seen[msg] == 0 {
				t.Errorf("no line %q among %v", msg, seen)
			}
		}
	})
}
