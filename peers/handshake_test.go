package peers_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/internal/testlog"
	"kring/peers"
)

func TestANodeThatDoesNotBelongIsRefusedWithOneClearLine(t *testing.T) {
	for name, test := range map[string]struct {
		tune func(o *peers.Options) // of n1
		want [2]string              // in the log of n0 and n1
		more int                    // lines about other nodes
	}{
		"another cluster": {tune: func(o *peers.Options) { o.Config.Name = "other" }, want: [2]string{
			`peer=n1 cause=cluster_name reason="cluster.name is`, `peer=n0 cause=cluster_name reason="cluster.name is`,
		}},
		"other virtual nodes": {tune: func(o *peers.Options) { o.Config.VirtualNodes = 100 }, want: [2]string{
			`virtual_nodes=100 at n1`, `virtual_nodes=512 at n0`,
		}},
		"another hash": {tune: func(o *peers.Options) { o.Config.Hash = "crc32-plain" }, want: [2]string{
			`hash=crc32 virtual_nodes=512 at n0`, `hash=crc32-plain virtual_nodes=512 at n1`,
		}},
		"a secret on one side": {tune: func(o *peers.Options) { o.Config.Secret = "s" }, want: [2]string{
			`peer=n1 cause=secret reason="cluster.secret is set at n1 and not at n0"`, `peer=n0 cause=secret reason="cluster.secret is set at n1 and not at n0"`,
		}},
		"not in the list": {tune: func(o *peers.Options) { o.Self.ID, o.Config.Peers = "n9", []string{"n9=http://n1:1", "n0=http://n0:1"} }, want: [2]string{
			`peer=n1 cause=address reason="n9 is at the address that cluster.peers of n0 has for n1"`, `reason="n9 is not in cluster.peers of n0"`,
		}, more: 1},
		"an id used twice": {tune: func(o *peers.Options) { o.Self.ID, o.Config.Peers = "n0", []string{"n0=http://n1:1", "n1=http://n0:1"} }, want: [2]string{
			`duplicate id n0: both nodes have it`, `duplicate id n0: both nodes have it`,
		}, more: 1},
		"an address of the other": {tune: func(o *peers.Options) { o.Config.Peers = []string{"n1=http://n1:1", "nx=http://n0:1"} }, want: [2]string{
			`peer=n1 cause=unknown_member reason="n0 is not in cluster.peers of n1"`, `peer=nx cause=address reason="n0 is at the address that cluster.peers of n1 has for nx"`,
		}, more: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := build(t, 2, func(i int, o *peers.Options) {
					if i == 1 {
						test.tune(o)
					}
				})
				for _, n := range c.nodes {
					n.run()
				}
				<-time.After(20 * time.Second)
				if open, _ := c.nodes[0].open("n1"); !open {
					t.Error("it is called")
				}
				for i, n := range c.nodes {
					if s := n.Stats(); s.Refused < 2 {
						t.Errorf("%d refused in 20 s", s.Refused)
					}
					told := n.log.Count("link refused")
					if told < 1 || told > 1+test.more || n.log.Count(test.want[i]) == 0 ||
						n.log.Count("level=") > told+n.log.Count("nothing listens at its address") || n.log.Count(`\`) != 0 {
						t.Errorf("log of %s: %s", n.id, n.log.String())
					}
				}
				if _, err := c.nodes[0].get(t.Context(), 1, "k"); !peers.NoAnswer(err) {
					t.Errorf("a get at it: %v", err)
				}
			})
		})
	}
}

func TestTheSecretIsProvedByBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := func(_ int, o *peers.Options) { o.Config.Secret = "s" }
		c := start(t, 2, secret)
		if a, err := c.nodes[0].get(t.Context(), 1, "k"); err != nil || a.Node != "n1" {
			t.Errorf("%+v, %v", a, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 2, func(i int, o *peers.Options) { o.Config.Secret = fmt.Sprint("s", i) })
		for _, n := range c.nodes {
			n.run()
		}
		<-time.After(5 * time.Second)
		for i, n := range c.nodes {
			if open, reason := n.open(fmt.Sprint("n", 1-i)); !open || !strings.Contains(reason, "cluster.secret of ") {
				t.Errorf("%s: open %v, %s", n.id, open, reason)
			}
		}
	})
}

// tape is a connection that keeps what is written.
type tape struct {
	net.Conn
	kept *testlog.Buffer
}

func (c tape) Write(b []byte) (int, error) {
	c.kept.Write(b)
	return c.Conn.Write(b)
}

func TestARecordedLinkPlayedAgainIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorded := &testlog.Buffer{}
		c := build(t, 2, func(i int, o *peers.Options) {
			o.Config.Secret = "s"
			if dial := o.Dial; i == 0 {
				o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
					conn, err := dial(ctx, addr)
					if err != nil {
						return nil, err
					}
					return tape{conn, recorded}, nil
				}
			}
		})
		c.nodes[1].run() // first, so that the first connection is the good one
		synctest.Wait()
		c.nodes[0].run()
		c.awaitReady()
		if _, err := c.nodes[0].get(t.Context(), 1, "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		served := c.nodes[1].times("k")

		conn, err := c.net.Dialer("stranger")(t.Context(), "n1:1")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		played := []byte(recorded.String())
		go conn.Write(played)
		said, err := io.ReadAll(conn)
		if err != nil || !bytes.Contains(said, []byte("cluster.secret of ")) {
			t.Errorf("%q, %v", said, err)
		}
		if s := c.nodes[1].Stats(); s.Incoming != 1 || s.Refused != 1 {
			t.Errorf("%+v", s)
		}
		if n := c.nodes[1].times("k"); n != served {
			t.Errorf("the call was served again")
		}
	})
}

func TestAStrangerThatSaysNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		for _, first := range []string{
			"GET /v1/peer-link HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: kring-link/1\r\n\r\n",
			"GET /v1/peer-link HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: kring-link/1\r\n\r\n\xff\xff\xff\xff\x01",
			"GET /v1/peer-link HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		} {
			conn, err := c.net.Dialer("stranger")(t.Context(), "n1:1")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, first); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			said, err := io.ReadAll(conn)
			if err != nil || time.Since(began) > 2*time.Second || len(said) > 1000 {
				t.Errorf("%q after %v, %v", said, time.Since(began), err)
			}
		}
	})
}

func TestASecondProcessWithALivingNodesIDIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		impostor := c.node(1)
		impostor.host = "elsewhere:1"
		impostor.run()
		<-time.After(10 * time.Second)
		if n := c.nodes[0].log.Count("duplicate id"); n != 1 {
			t.Errorf("logged %d times: %s", n, c.nodes[0].log.String())
		}
		if open, reason := c.nodes[0].open("n1"); open {
			t.Error("the real one is not called:", reason)
		}
		if _, err := impostor.get(t.Context(), 0, "k"); err == nil {
			t.Error("the impostor was answered")
		}
	})
}

func TestTheProcessAtTheAddressInTheListIsTheRealOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, 2)
		c.nodes[0].run()
		impostor := c.node(1)
		impostor.host = "elsewhere:1"
		impostor.run()
		await(t, "impostor's link", func() bool { return c.nodes[0].Stats().Incoming == 1 })
		c.nodes[1].run()
		await(t, "real one called", func() bool { open, _ := c.nodes[0].open("n1"); return !open })
		<-time.After(5 * time.Second)
		if s := c.nodes[0].Stats(); s.Incoming != 1 || s.Refused == 0 {
			t.Errorf("%d links, %d refused", s.Incoming, s.Refused)
		}
		if n := c.nodes[0].log.Count("link of another process"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		if a, err := c.nodes[1].get(t.Context(), 0, "k"); err != nil || a.Node != "n0" {
			t.Errorf("the real one: %+v, %v", a, err)
		}
	})
}
