package link

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// A handshake has four messages. The side that dialled speaks first:
//
//	→ hello   ← hello or refusal   → proof or refusal   ← proof or refusal
//
// A proof is HMAC-SHA256 under the secret over the role, both hellos, each of
// which has a fresh nonce, and what its sender says of itself. So a recorded proof
// proves nothing later, and a proof cannot be sent back to its maker. Without a
// secret it is empty.
//
// The dialler proves itself first. So an unknown node cannot have this one compute
// material for guessing at the secret, and learns no names, parameters or members.

// The roles that proofs are bound to.
const (
	roleDialler  = "kring-link/1 dialler"
	roleListener = "kring-link/1 listener"
)

func proof(secret, role string, dialler, listener, about []byte) []byte {
	if secret == "" {
		return nil
	}
	mac := hmac.New(sha256.New, []byte(secret))
	for _, part := range [][]byte{[]byte(role), dialler, listener, about} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) // a hash never fails
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// turnAway tells the other side why it is refused, and returns that.
func turnAway(conn io.Writer, err error) error {
	r := AsRefusal(err)
	if r == nil {
		r = &Refusal{CauseOther, Printable(err.Error())}
	}
	if sayErr := say(conn, sayRefusal, r.appendTo(nil)); sayErr != nil {
		return fmt.Errorf("%w (and could not say so: %w)", err, sayErr)
	}
	return err
}

func (n *Node) hello(target string) *hello {
	h := &hello{MinProtocol: minProtocol, MaxProtocol: n.speaks(), secret: n.Secret != "", ID: n.ID, Target: target}
	rand.Read(h.nonce[:]) // never fails: the program ends instead
	return h
}

// prove is the body of this node's sayProof.
func (n *Node) prove(role string, dialler, listener []byte) []byte {
	view, viewID := n.View()
	a := &about{
		Cluster: n.Cluster, Ring: n.Ring, Incarnation: n.Incarnation, View: view, ViewID: viewID,
		MaxValue: n.MaxValue, MaxCalls: maxCalls,
	}
	said := a.appendTo(nil)
	return append(AppendString(nil, string(proof(n.Secret, role, dialler, listener, said))), said...)
}

// verify reads the other side's sayProof.
func (n *Node) verify(c *Claim, body []byte, role string, dialler, listener []byte) error {
	mac, covered, a, err := parseProof(body)
	if err != nil {
		return err
	}
	if !hmac.Equal(mac, proof(n.Secret, role, dialler, listener, covered)) {
		return Refuse(CauseSecret, "cluster.secret of %s and of %s are not the same", c.ID, n.ID)
	}
	c.about, c.Proven = a, true
	return nil
}

// checkHello reports whether the two nodes can make a handshake at all.
func (n *Node) checkHello(h *hello) error {
	switch {
	case h.MinProtocol > n.speaks() || h.MaxProtocol < minProtocol:
		return Refuse(CauseProtocol, "%s speaks the protocols %d to %d, %s those from %d to %d",
			h.ID, h.MinProtocol, h.MaxProtocol, n.ID, minProtocol, n.speaks())
	case h.secret && n.Secret == "":
		return Refuse(CauseSecret, "cluster.secret is set at %s and not at %s", h.ID, n.ID)
	case !h.secret && n.Secret != "":
		return Refuse(CauseSecret, "cluster.secret is set at %s and not at %s", n.ID, h.ID)
	}
	return nil
}

// check compares what the other side has proved with what this node knows.
func (n *Node) check(c *Claim) error {
	switch {
	case c.Cluster != n.Cluster:
		return Refuse(CauseCluster, "cluster.name is %s at %s, %s at %s", c.Cluster, c.ID, n.Cluster, n.ID)
	case c.Ring != n.Ring:
		return Refuse(CauseRing, "the ring has %s at %s, %s at %s", c.Ring, c.ID, n.Ring, n.ID)
	case c.ID == n.ID:
		return Refuse(CauseID, "duplicate id %s: both nodes have it", c.ID)
	}
	if err := n.Check(c); err != nil {
		return err
	}
	if c.Target != n.ID {
		return Refuse(CauseAddress, "%s is at the address that cluster.peers of %s has for %s", n.ID, c.ID, c.Target)
	}
	return nil
}

// greet makes the handshake of the side that dialled.
func (n *Node) greet(conn io.ReadWriter, target string) (*Claim, error) {
	mine := n.hello(target).appendTo(nil)
	if err := say(conn, sayHello, mine); err != nil {
		return nil, err
	}
	theirs, err := hear(conn, sayHello)
	if err != nil {
		return nil, err
	}
	h, err := parseHello(theirs)
	if err == nil {
		err = n.checkHello(&h)
	}
	switch {
	case err != nil:
	case h.ID == n.ID:
		err = Refuse(CauseID, "duplicate id %s: both nodes have it", h.ID)
	case h.ID != target:
		err = Refuse(CauseAddress, "%s is at the address that cluster.peers of %s has for %s", h.ID, n.ID, target)
	}
	if err != nil {
		return nil, turnAway(conn, err)
	}
	if err := say(conn, sayProof, n.prove(roleDialler, mine, theirs)); err != nil {
		return nil, err
	}
	body, err := hear(conn, sayProof)
	if err != nil {
		return nil, err
	}
	c := &Claim{hello: h}
	if err := n.verify(c, body, roleListener, mine, theirs); err != nil {
		return nil, err
	}
	return c, n.check(c)
}

// welcome makes the handshake of the side that was dialled: see Welcome.
func (n *Node) welcome(conn io.ReadWriter, admit func(c *Claim) error) (*Claim, error) {
	c := &Claim{}
	theirs, err := hear(conn, sayHello)
	if err != nil {
		return c, err
	}
	if c.hello, err = parseHello(theirs); err == nil {
		err = n.checkHello(&c.hello)
	}
	if err != nil {
		return c, turnAway(conn, err)
	}
	mine := n.hello(c.ID).appendTo(nil)
	if err := say(conn, sayHello, mine); err != nil {
		return c, err
	}
	body, err := hear(conn, sayProof)
	if err != nil {
		return c, err
	}
	if err = n.verify(c, body, roleDialler, theirs, mine); err == nil {
		err = n.check(c)
	}
	if err == nil {
		err = admit(c)
	}
	if err != nil {
		return c, turnAway(conn, err)
	}
	return c, say(conn, sayProof, n.prove(roleListener, theirs, mine))
}
