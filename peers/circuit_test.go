package peers_test

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kring/peers"
)

// open reports whether a node's circuit to another is open, and why.
func (n *node) open(id string) (bool, string) {
	for _, p := range n.Stats().Peers {
		if p.ID == id {
			return p.Open, p.Reason
		}
	}
	return false, "no such peer"
}

func TestWhenAllAreReadyAllCircuitsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 3)
		for i, n := range c.nodes {
			n.run()
			<-time.After(time.Duration(i) * 700 * time.Millisecond)
		}
		c.awaitReady()
		for _, n := range c.nodes {
			for _, o := range c.nodes {
				if open, reason := n.open(o.id); open {
					t.Errorf("%s does not call %s: %s", n.id, o.id, reason)
				}
			}
			for _, m := range n.Members() {
				if m.State != peers.StateActive || m.Incarnation == 0 {
					t.Errorf("%s sees %+v", n.id, m)
				}
			}
		}
	})
}

// Nodes that start one after the other warn of nothing; one that does not
// start, or goes, is worth a warning.
func TestAMemberThatIsStillStartingIsNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 3)
		first, late := c.nodes[0], c.nodes[1]
		first.run()
		<-time.After(2 * time.Second)
		late.run()
		<-time.After(3 * time.Second)
		if first.log.Count("level=WARN msg=\"peer is not called\"") != 0 || first.log.Count("level=INFO msg=\"peer is not reached yet\" peer=n1") != 1 {
			t.Errorf("a member that came late: %s", first.log.String())
		}
		<-time.After(20 * time.Second)
		if first.log.Count("level=WARN msg=\"peer is not called\" peer=n2") != 1 {
			t.Errorf("a member that never came: %s", first.log.String())
		}
		late.stop()
		<-time.After(5 * time.Second)
		if first.log.Count("level=WARN msg=\"peer is not called\" peer=n1") != 1 {
			t.Errorf("a member that went: %s", first.log.String())
		}
	})
}

// sluggish is a connection on which the first write after the handshake, a
// ping, takes a while.
type sluggish struct {
	net.Conn
	writes int
}

func (c *sluggish) Write(b []byte) (int, error) {
	if c.writes++; c.writes == 4 { // upgrade, hello, proof
		<-time.After(200 * time.Millisecond)
	}
	return c.Conn.Write(b)
}

func TestASlowFirstConnectionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 2, func(i int, o *peers.Options) {
			if dial := o.Dial; i == 0 {
				o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
					conn, err := dial(ctx, addr)
					return &sluggish{Conn: conn}, err
				}
			}
		})
		c.nodes[1].run()
		c.net.Hold("n1:1", "n0:1")
		c.nodes[0].run()
		await(t, "circuit open", func() bool { open, _ := c.nodes[0].open("n1"); return open })
		<-time.After(300 * time.Millisecond)
		c.net.Release("n1:1", "n0:1")
		await(t, "ready", func() bool { ok, _ := c.nodes[0].Ready(); return ok })
		if open, reason := c.nodes[0].open("n1"); open {
			t.Error("ready, and does not call the other:", reason)
		}
	})
}

func TestANodeThatNobodyHearsIsReadyAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 2)
		c.nodes[0].run()
		await(t, "ready without the other", func() bool { ok, _ := c.nodes[0].Ready(); return ok })

		c.net.Hold("n0:1", "n1:1") // n1 cannot reach n0 nor answer it
		c.nodes[1].run()
		began := time.Now()
		await(t, "ready, and not heard", func() bool { ok, _ := c.nodes[1].Ready(); return ok })
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("ready after %v", took)
		}
		c.net.Release("n0:1", "n1:1")
	})
}

// A node that is out of descriptors when a link breaks does not take the
// member for dead at once; if it stays so, others have to answer.
func TestOwnShortageIsNotTheMembersDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var short atomic.Bool
		c := start(t, 2, func(i int, o *peers.Options) {
			if dial := o.Dial; i == 0 {
				o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
					if short.Load() {
						return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
					}
					return dial(ctx, addr)
				}
			}
		})
		n := c.nodes[0]
		outages := n.Stats().Peers[0].Outages // the other started later, perhaps
		short.Store(true)
		c.net.Break("n0:1", "n1:1")
		<-time.After(150 * time.Millisecond)
		if open, reason := n.open("n1"); open {
			t.Errorf("its circuit is open: %s", reason)
		}
		short.Store(false)
		<-time.After(time.Second)
		if open, reason := n.open("n1"); open || n.Stats().Peers[0].Outages != outages {
			t.Errorf("open %v (%s), %d outages, %d before", open, reason, n.Stats().Peers[0].Outages, outages)
		}
		short.Store(true)
		c.net.Break("n0:1", "n1:1")
		await(t, "circuit open", func() bool { open, _ := n.open("n1"); return open })
		if _, reason := n.open("n1"); reason == "nothing listens at its address" {
			t.Error(reason)
		}
		short.Store(false)
		await(t, "circuit closed", func() bool { open, _ := n.open("n1"); return !open })
	})
}

func TestAnIdleHungNodeIsNoticedWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		c.nodes[1].pause()
		began := time.Now()
		await(t, "circuit open", func() bool { open, _ := c.nodes[0].open("n1"); return open })
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("noticed after %v", took)
		}
		if _, reason := c.nodes[0].open("n1"); reason != "silent" {
			t.Error(reason)
		}
		if m := c.nodes[0].Members()[1]; m.State != peers.StateDown || m.Reason != "silent" {
			t.Errorf("view: %+v", m)
		}
		<-time.After(12 * time.Second) // its link is given up meanwhile
		c.nodes[1].resume()
		began = time.Now()
		await(t, "circuit closed", func() bool { open, _ := c.nodes[0].open("n1"); return !open })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("back after %v", took)
		}
	})
}

// A pause must not make callers wait longer in the next one: the pings that were sent
// meanwhile are all answered late, when the pause ends.
func TestEveryPauseCostsCallersTheSameShortWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		for pause := range 4 {
			c.nodes[0].pause()
			began := time.Now()
			_, err := c.nodes[2].get(t.Context(), 0, "k")
			if waited := time.Since(began); !peers.NoAnswer(err) || waited > 700*time.Millisecond {
				t.Errorf("pause %d, after %v: %v", pause, waited, err)
			}
			<-time.After(1500 * time.Millisecond)
			c.nodes[0].resume()
			await(t, "n0 back", func() bool { _, err := c.nodes[2].get(t.Context(), 0, "k"); return err == nil })
			<-time.After(2 * time.Second)
			if rtt := c.nodes[2].Stats().Peers[0].RTT; rtt > 0.1 {
				t.Errorf("pause %d: round trips of %v s are the link's habit now", pause, rtt)
			}
		}
		c.checkBooks()
	})
}

// A link's first pongs may be late on a busy machine: that is no silence yet.
func TestANewLinkIsGivenMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 2)
		for _, n := range c.nodes {
			n.run()
		}
		c.awaitReady()
		before := c.nodes[0].Stats().Peers[0].Outages
		c.nodes[1].pause()
		time.AfterFunc(700*time.Millisecond, c.nodes[1].resume)
		if a, err := c.nodes[0].get(t.Context(), 1, "k"); err != nil || a.Node != "n1" {
			t.Errorf("%+v, %v", a, err)
		}
		if n := c.nodes[0].Stats().Peers[0].Outages; n != before {
			t.Errorf("%d outages, %d before", n, before)
		}
	})
}

func TestANodeThatKeepsFailingIsLeftAloneLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		out := func() time.Duration {
			c.nodes[1].pause()
			await(t, "open", func() bool { open, _ := c.nodes[0].open("n1"); return open })
			began := time.Now()
			c.nodes[1].resume()
			await(t, "closed", func() bool { open, _ := c.nodes[0].open("n1"); return !open })
			return time.Since(began)
		}
		first := out()
		var last time.Duration
		for range 8 {
			last = out()
		}
		if last < 1400*time.Millisecond || last > 3*time.Second || first > time.Second {
			t.Errorf("out for %v, then for %v", first, last)
		}
	})
}

func TestARestartedNodeIsCalledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 3)
		before := c.nodes[0].Members()[1].Incarnation
		c.nodes[1].kill()
		await(t, "circuit open", func() bool { open, _ := c.nodes[0].open("n1"); return open })
		<-time.After(time.Minute) // the back-off is at its longest
		c.nodes[1] = c.node(1)
		c.nodes[1].run()
		began := time.Now()
		await(t, "ready", func() bool { ok, _ := c.nodes[1].Ready(); return ok })
		if open, reason := c.nodes[0].open("n1"); open || time.Since(began) > time.Second {
			t.Errorf("open %v (%s) after %v", open, reason, time.Since(began))
		}
		if now := c.nodes[0].Members()[1].Incarnation; now == before || now == 0 {
			t.Errorf("incarnation %d, before %d", now, before)
		}
	})
}
