package peers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers"
)

// waits has a node answer gets when a gate opens. All wait for one load.
func (n *node) waits(gate chan struct{}) {
	starter := true
	n.on(func(ctx context.Context, req *cache.Request) (cache.Answer, error) {
		n.mu.Lock()
		started := starter
		starter = false
		err := req.Waiting.Loading(7, started) // under the lock, so that it is told before the gets that join
		n.mu.Unlock()
		if err != nil {
			return cache.Answer{Kind: cache.KindRefused}, err
		}
		select {
		case <-gate:
			return cache.Answer{Kind: cache.KindJoined, Node: n.id, Entry: &cache.Entry{Value: []byte("v")}}, nil
		case <-ctx.Done():
			return cache.Answer{}, ctx.Err()
		}
	})
}

// crowd makes gets at n1, all at once, and returns when all wait.
func (n *node) crowd(gets int) (errs func() []error) {
	ended := make(chan error, gets)
	for range gets {
		go func() {
			a, err := n.get(n.c.t.Context(), 1, "k")
			if err == nil && string(a.Entry.Value) != "v" {
				err = fmt.Errorf("answered with %q", a.Entry.Value)
			}
			ended <- err
		}()
	}
	synctest.Wait()
	return func() (all []error) {
		for range gets {
			if err := <-ended; err != nil {
				all = append(all, err)
			}
		}
		return all
	}
}

func TestCallsThatWaitForOneLoadAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		gate := make(chan struct{})
		c.nodes[1].waits(gate)
		errs := c.nodes[0].crowd(1100)
		<-time.After(3 * time.Second)
		if n := c.nodes[0].Stats().Peers[0].InFlight; n != 1 {
			t.Errorf("%d calls are under way", n)
		}
		close(gate)
		if failed := errs(); len(failed) != 0 {
			t.Errorf("%d failed: %v", len(failed), failed[0])
		}
		c.checkBooks()
	})
}

// A node of an older version is told only things that it understands, and is not asked
// for more than it can take.
func TestSlowCallsBetweenVersions(t *testing.T) {
	for old := range 2 {
		t.Run(fmt.Sprintf("n%d is old", old), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := build(t, 2)
				c.nodes[old].Speaks(1)
				for _, n := range c.nodes {
					n.run()
				}
				c.awaitReady()
				<-time.After(time.Second)
				gate := make(chan struct{})
				c.nodes[1].waits(gate)
				errs := c.nodes[0].crowd(1100)
				<-time.After(3 * time.Second)
				if n := c.nodes[0].Stats().Peers[0].InFlight; n != 1024 {
					t.Errorf("%d calls are under way", n)
				}
				close(gate)
				if failed := errs(); len(failed) != 0 {
					t.Errorf("%d failed: %v", len(failed), failed[0])
				}
				for _, n := range c.nodes {
					if s := n.Stats(); s.BrokenFrames != 0 {
						t.Errorf("%d links broke", s.BrokenFrames)
					}
				}
				c.checkBooks()
			})
		})
	}
}

// refusing is a Waiting that lets no get wait.
type refusing struct{}

func (refusing) Loading(uint64, bool) error { return cache.ErrOverloaded }

// A get whose Waiting refuses it ends at once, and its call is cancelled.
func TestAGetThatMayNotWaitIsRefusedHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		gate := make(chan struct{})
		defer close(gate)
		c.nodes[1].waits(gate)
		n := c.nodes[0]
		req := getOf("k")
		req.Waiting = refusing{}
		_, err := n.Call(t.Context(), "n1", req)
		var here *peers.RefusedHere
		if !errors.As(err, &here) || !errors.Is(err, cache.ErrOverloaded) || err.Error() != cache.ErrOverloaded.Error() {
			t.Error(err)
		}
		synctest.Wait()
		if in := n.Stats().Peers[0].InFlight; in != 0 {
			t.Errorf("%d calls are under way", in)
		}
	})
}
