package peers

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/internal/testlog"
	"kring/link"
	"kring/peers/memnet"
)

// knock makes a handshake with n0 and returns all that n0 said, and what came of it.
func knock(t *testing.T, n *memnet.Network, with *Peers) (said string, err error) {
	t.Helper()
	conn, err := n.Dialer("stranger")(t.Context(), "n0:1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var heard bytes.Buffer
	_, _, err = with.node.Greet(overheard{conn, io.TeeReader(conn, &heard)}, "n0:1", "n0")
	return heard.String(), err
}

// overheard is a connection whose reading side is copied.
type overheard struct {
	net.Conn
	r io.Reader
}

func (o overheard) Read(b []byte) (int, error) { return o.r.Read(b) }

// guarded is n0 with a secret and a name of its own, running, and its log.
func guarded(t *testing.T, n *memnet.Network) (good, other *Peers, log *testlog.Buffer) {
	t.Helper()
	good, other = pair(t, n)
	log = &testlog.Buffer{}
	good.log = slog.New(slog.NewTextHandler(log, nil))
	good.node.Secret, good.node.Cluster = "s", "salamander"
	good.Start(idle{})
	t.Cleanup(func() { good.Close() })
	serve(t, n, "n0:1", good)
	synctest.Wait()
	return good, other, log
}

func TestAnUnknownNodeLearnsNothingAndFillsNoTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		good, unknown, log := guarded(t, n)
		unknown.node.Secret = "guess"
		for i := range 500 {
			unknown.node.Cluster = fmt.Sprint("guess\x1b[31m", i)
			unknown.node.ID = []string{"n1", "n0", fmt.Sprint("x\n\"", i)}[i%3]
			said, err := knock(t, n, unknown)
			if err == nil || strings.Contains(said, "salamander") || strings.Contains(said, "crc32") || strings.Contains(said, "cluster.peers") {
				t.Fatalf("told an unknown node: %q, %v", said, err)
			}
		}
		unknown.node.Secret = ""
		if _, err := knock(t, n, unknown); link.AsRefusal(err) == nil || link.AsRefusal(err).Cause != link.CauseSecret {
			t.Error("without a secret:", err)
		}
		synctest.Wait()
		if s := good.Stats(); s.Refused != 501 {
			t.Errorf("%d counted", s.Refused)
		}
		// One line for each cause: an unknown node may also say that it refuses.
		if lines := log.Count("unknown node's peer link refused"); lines != 2 || log.Count("x1b") != 0 {
			t.Errorf("%d lines: %s", lines, log.String())
		}
		if n := good.notices.Len(); n > 3 {
			t.Errorf("%d notices", n)
		}

		<-time.After(unknownEvery + time.Second)
		if _, err := knock(t, n, unknown); err == nil {
			t.Error("let in")
		}
		synctest.Wait()
		if log.Count("unknown node's peer link refused") != 3 || log.Count("not_logged=") != 3 {
			t.Errorf("after a while: %s", log.String())
		}

		// A node that knows the secret is told what is wrong.
		unknown.node.Secret, unknown.node.ID = "s", "n1"
		for range 3 {
			_, err := knock(t, n, unknown)
			if err == nil || !strings.Contains(err.Error(), "salamander at n0") {
				t.Error("a member is told:", err)
			}
		}
		synctest.Wait()
		if log.Count("peer=n1 cause=cluster_name") != 1 {
			t.Errorf("of the member: %s", log.String())
		}
	})
}

func TestAMemberThatBreaksTheProtocolAgainAndAgainIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		good, bad := pair(t, n)
		log := &testlog.Buffer{}
		good.log = slog.New(slog.NewTextHandler(log, nil))
		good.Start(idle{})
		defer good.Close()
		serve(t, n, "n0:1", good)
		again := func(times int) {
			for range times {
				c := &anyCall{body: []byte("nonsense")}
				if err := dialled(t, n, bad).Begin(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				<-c.Done()
			}
			synctest.Wait()
		}
		again(20)
		if s := good.Stats(); s.BrokenFrames != 20 || log.Count("broke the protocol") != 1 {
			t.Errorf("%d counted: %s", s.BrokenFrames, log.String())
		}
		<-time.After(unknownEvery + time.Second)
		again(1)
		if log.Count("broke the protocol") != 2 || log.Count("not_logged=19") != 1 {
			t.Errorf("after a while: %s", log.String())
		}
	})
}
