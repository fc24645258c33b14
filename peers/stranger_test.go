package peers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/internal/testlog"
	"kring/peers/memnet"
)

// knock makes a handshake with n0 and returns all that n0 said, and what came of it.
func knock(t *testing.T, n *memnet.Network, with *Peers, target string) (said string, err error) {
	t.Helper()
	conn, err := n.Dialer("stranger")(t.Context(), "n0:1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var heard bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &heard))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", LinkPath, UpgradeName)
	if _, err := http.ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	_, err = with.greet(duplex{conn, r}, target)
	return heard.String(), err
}

// guarded is n0 with a secret and a name of its own, running, and its log.
func guarded(t *testing.T, n *memnet.Network) (good, other *Peers, log *testlog.Buffer) {
	t.Helper()
	good, other = pair(t, n)
	log = &testlog.Buffer{}
	good.log = slog.New(slog.NewTextHandler(log, nil))
	good.secret, good.cluster = "s", "salamander"
	good.Start(idle{})
	t.Cleanup(func() { good.Close() })
	serve(t, n, "n0:1", good)
	synctest.Wait()
	return good, other, log
}

func TestAStrangerLearnsNothingAndFillsNoTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		good, stranger, log := guarded(t, n)
		stranger.secret = "guess"
		for i := range 500 {
			stranger.cluster = fmt.Sprint("guess\x1b[31m", i)
			stranger.self = []string{"n1", "n0", fmt.Sprint("x\n\"", i)}[i%3]
			said, err := knock(t, n, stranger, "n0")
			if err == nil || strings.Contains(said, "salamander") || strings.Contains(said, "crc32") || strings.Contains(said, "cluster.peers") {
				t.Fatalf("told a stranger: %q, %v", said, err)
			}
		}
		stranger.secret = ""
		if _, err := knock(t, n, stranger, "n0"); asRefusal(err) == nil || asRefusal(err).cause != causeSecret {
			t.Error("without a secret:", err)
		}
		synctest.Wait()
		if s := good.Stats(); s.Refused != 501 {
			t.Errorf("%d counted", s.Refused)
		}
		// One line for each cause: a stranger may also say that it refuses.
		if lines := log.Count("stranger's peer link refused"); lines != 2 || log.Count("x1b") != 0 {
			t.Errorf("%d lines: %s", lines, log.String())
		}
		if n := good.notices.Len(); n > 3 {
			t.Errorf("%d notices", n)
		}

		<-time.After(strangersEvery + time.Second)
		if _, err := knock(t, n, stranger, "n0"); err == nil {
			t.Error("let in")
		}
		synctest.Wait()
		if log.Count("stranger's peer link refused") != 3 || log.Count("not_logged=") != 3 {
			t.Errorf("after a while: %s", log.String())
		}

		// One who knows the secret is a member, and told what is wrong.
		stranger.secret, stranger.self = "s", "n1"
		for range 3 {
			_, err := knock(t, n, stranger, "n0")
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
				conn, r := dialled(t, n, bad)
				if _, err := conn.Write(stamped(frameOf(77, 1, nil), bad.incarnation)[0]); err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, r); err != nil {
					t.Error(err)
				}
				conn.Close()
			}
			synctest.Wait()
		}
		again(20)
		if s := good.Stats(); s.BrokenFrames != 20 || log.Count("broke the protocol") != 1 {
			t.Errorf("%d counted: %s", s.BrokenFrames, log.String())
		}
		<-time.After(strangersEvery + time.Second)
		again(1)
		if log.Count("broke the protocol") != 2 || log.Count("not_logged=19") != 1 {
			t.Errorf("after a while: %s", log.String())
		}
	})
}

func TestWhatAnotherNodeSaysIsHarmlessInTheLog(t *testing.T) {
	for said, want := range map[string]string{
		"plain":                 "plain",
		"two\r\nlines\x00":      "twolines",
		"\x1b[31mred\u202egnir": "[31mredgnir",
		"bad \xff utf-8":        "bad  utf-8",
		"größer":                "größer",
	} {
		if got := printable(said); got != want {
			t.Errorf("%q became %q", said, got)
		}
	}
	if got := printable(strings.Repeat("é", maxReason)); len(got) > maxReason+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}
