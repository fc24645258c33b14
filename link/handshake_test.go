package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/peers/memnet"
)

func TestNodesThatDoNotAgreeAreRefusedAtBothEnds(t *testing.T) {
	for name, test := range map[string]struct {
		dialler, listener func(n *Node)
		target            string
		cause             Cause
		reason            string
	}{
		"another cluster": {func(n *Node) { n.Cluster = "other" }, nil, "n0", CauseCluster, "cluster.name is other at n1, kring at n0"},
		"another ring":    {func(n *Node) { n.Ring = "other" }, nil, "n0", CauseRing, "the ring has other at n1, ring at n0"},
		"one id twice":    {func(n *Node) { n.ID = "n0" }, nil, "n0", CauseID, "duplicate id n0: both nodes have it"},
		"another address": {nil, nil, "n9", CauseAddress, "n0 is at the address that cluster.peers of n1 has for n9"},
		"a secret here":   {func(n *Node) { n.Secret = "s" }, nil, "n0", CauseSecret, "cluster.secret is set at n1 and not at n0"},
		"a secret there":  {nil, func(n *Node) { n.Secret = "s" }, "n0", CauseSecret, "cluster.secret is set at n0 and not at n1"},
		"two secrets": {
			func(n *Node) { n.Secret = "s" }, func(n *Node) { n.Secret = "t" }, "n0", CauseSecret,
			"cluster.secret of n1 and of n0 are not the same",
		},
		"the listener's check": {nil, func(n *Node) {
			n.Check = func(c *Claim) error { return Refuse(CauseUnknown, "%s is unknown", c.ID) }
		}, "n0", CauseUnknown, "n1 is unknown"},
		"another error of that": {nil, func(n *Node) {
			n.Check = func(*Claim) error { return errors.New("out of\nsorts") }
		}, "n0", CauseOther, "out ofsorts"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialler, listener := thatNode(), thisNode()
				if test.dialler != nil {
					test.dialler(dialler)
				}
				if test.listener != nil {
					test.listener(listener)
				}
				dialled, accepted := connected(t, memnet.New())
				near, far := shakeHands(dialled, accepted, dialler, listener, test.target)
				if r := AsRefusal(near.err); r == nil || r.Cause != test.cause || r.Reason != test.reason {
					t.Errorf("the dialler: %v", near.err)
				}
				if r := AsRefusal(far.err); test.cause != CauseOther && (r == nil || r.Cause != test.cause || r.Reason != test.reason) {
					t.Errorf("the listener: %v", far.err)
				}
			})
		})
	}
}

// A dialler may refuse, too, when it has the listener's proof.
func TestTheDiallerChecksTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialler := thatNode()
		dialler.Check = func(c *Claim) error { return Refuse(CauseUnknown, "%s is unknown", c.ID) }
		dialled, accepted := connected(t, memnet.New())
		near, far := shakeHands(dialled, accepted, dialler, thisNode(), "n0")
		if r := AsRefusal(near.err); r == nil || r.Reason != "n0 is unknown" || far.err != nil {
			t.Errorf("%v, %v", near.err, far.err)
		}
	})
}

func TestBothEndsKnowOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialler, listener := thatNode(), thisNode()
		dialler.Secret, listener.Secret = "s", "s"
		dialler.MaxValue = 77
		dialler.View = func() (number, id uint64) { return 5, 6 }
		near, far := shaken(t, memnet.New(), dialler, listener)
		c := far.claim
		if c.ID != "n1" || c.Target != "n0" || c.Incarnation != 8 || c.MaxValue != 77 || c.View != 5 || c.ViewID != 6 || !c.Proven || c.MaxProtocol != Protocol {
			t.Errorf("%+v", c)
		}
		if c := near.claim; c.ID != "n0" || c.Incarnation != 7 || c.MaxCalls != maxCalls || !c.Proven {
			t.Errorf("%+v", c)
		}
	})
}

// The newest protocol that both ends speak is spoken, if there is one.
func TestProtocols(t *testing.T) {
	mine := thisNode()
	for _, test := range []struct {
		least, most byte // of the other node
		refused     bool
		frees       bool
	}{{1, 1, false, false}, {1, 2, false, true}, {2, 9, false, true}, {3, 9, true, false}, {0, 0, true, false}} {
		h := hello{MinProtocol: test.least, MaxProtocol: test.most, ID: "n1"}
		r := AsRefusal(mine.checkHello(&h))
		if (r != nil) != test.refused || r != nil && r.Cause != CauseProtocol {
			t.Errorf("%d to %d: %v", test.least, test.most, r)
		}
		if frees := mine.freesSlots(&Claim{hello: h}); !test.refused && frees != test.frees {
			t.Errorf("%d to %d: a call that waits has no slot: %v", test.least, test.most, frees)
		}
	}
}

// What is dialled need not be a node at all.
func TestADialledServerThatIsNoNode(t *testing.T) {
	upgraded := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: kring-link/1\r\n\r\n"
	for name, test := range map[string]struct{ says, want string }{
		"no upgrade":          {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status 404"},
		"no HTTP":             {"SSH-2.0\r\n\r\n", "malformed HTTP"},
		"nothing":             {"", "i/o timeout"},
		"an upgrade, no more": {upgraded, "i/o timeout"},
		"a huge hello":        {upgraded + "\xff\xff\xff\xff\x01", "bad frame"},
		"a hello of a byte":   {upgraded + "\x00\x00\x00\x01\x01\x01", "bad frame"},
		"a proof at once":     {upgraded + "\x00\x00\x00\x01\x02\x01", "bad frame"},
		"a refusal":           {upgraded + "\x00\x00\x00\x05\x03\x63oh\x00!", "refused: oh!"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialled, accepted := connected(t, memnet.New())
				if _, err := io.WriteString(accepted, test.says); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, _, err := thatNode().Greet(dialled, "n0:1", "n0")
				if err == nil || !strings.Contains(err.Error(), test.want) || time.Since(began) > handshakeTimeout {
					t.Errorf("%v, after %v", err, time.Since(began))
				}
			})
		})
	}
}

func TestAConnectionThatBreaksInTheHandshake(t *testing.T) {
	near, far := net.Pipe()
	far.Close()
	near.Close()
	if _, _, err := thatNode().Greet(near, "n0:1", "n0"); err == nil {
		t.Error("greeted")
	}
	if c, err := thisNode().Welcome(near, nil, nil); err == nil || c == nil {
		t.Errorf("welcomed: %v, %+v", err, c)
	}
	for broken := range 2 { // after so many messages
		dialled, accepted := net.Pipe()
		go func() {
			defer accepted.Close()
			r := newFrameReader(accepted).r
			if _, err := http.ReadRequest(r); err != nil || broken == 0 {
				return
			}
			fmt.Fprintf(accepted, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			_, _ = hear(r, sayHello) // and then it hangs up
		}()
		if _, _, err := thatNode().Greet(dialled, "n0:1", "n0"); err == nil {
			t.Errorf("greeted, though it hung up after %d messages", broken)
		}
		dialled.Close()
	}
}

func TestWhatAnotherNodeSaysIsHarmlessInTheLog(t *testing.T) {
	for said, want := range map[string]string{
		"plain":                 "plain",
		"two\r\nlines\x00":      "twolines",
		"\x1b[31mred\u202egnir": "[31mredgnir",
		"bad \xff utf-8":        "bad  utf-8",
		"größer":                "größer",
	} {
		if got := Printable(said); got != want {
			t.Errorf("%q became %q", said, got)
		}
	}
	if got := Printable(strings.Repeat("é", maxReason)); len(got) > maxReason+len("…") {
		t.Errorf("%d bytes", len(got))
	}
	for c := range CauseMalformed + 1 {
		if c.String() == "" {
			t.Errorf("cause %d has no name", c)
		}
	}
}
