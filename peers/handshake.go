package peers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// protocol is the version of the frames that this code speaks; minProtocol is
// the oldest that it still does.
//
// Since version 2 a loading frame says which load the call waits for, and the
// call has no slot from then on.
const (
	protocol    = 2
	minProtocol = 1
)

// A handshake has four messages. The side that dialled speaks first:
//
//	→ hello   ← hello or refusal   → proof or refusal   ← proof or refusal
//
// A proof is HMAC-SHA256 under the secret over the role, both hellos, each of
// which has a fresh nonce, and what its sender says of itself with it: a
// recorded one proves nothing later, and one cannot be sent back to who made
// it. Without a secret it is empty.
//
// The dialler proves itself first, so that a stranger cannot have this node
// compute material for guessing at the secret; nor is it told the names and
// parameters here, or who is a member, before it has.

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

// claim is who the other side of a link says it is.
type claim struct {
	hello
	about
	proven bool // it knows the secret, if this node has one
}

// turnAway tells the other side why, and returns why.
func turnAway(conn io.Writer, err error) error {
	r := asRefusal(err)
	if r == nil {
		r = &refusal{causeOther, printable(err.Error())}
	}
	if sayErr := say(conn, sayRefusal, r.appendTo(nil)); sayErr != nil {
		return fmt.Errorf("%w (and could not say so: %w)", err, sayErr)
	}
	return err
}

func (p *Peers) hello(target string) *hello {
	h := &hello{minProtocol: minProtocol, maxProtocol: p.speaks, secret: p.secret != "", id: p.self, target: target}
	rand.Read(h.nonce[:]) // never fails: the program ends instead
	return h
}

// prove is the body of this node's sayProof.
func (p *Peers) prove(role string, dialler, listener []byte) []byte {
	v := p.view.Load()
	a := &about{
		cluster: p.cluster, ring: p.ring, incarnation: p.incarnation, view: v.Number, viewID: v.ID,
		maxValue: uint64(p.maxValue), maxCalls: maxCalls,
	}
	said := a.appendTo(nil)
	return append(appendString(nil, string(proof(p.secret, role, dialler, listener, said))), said...)
}

// verify reads the other side's sayProof.
func (p *Peers) verify(c *claim, body []byte, role string, dialler, listener []byte) error {
	mac, covered, a, err := parseProof(body)
	if err != nil {
		return err
	}
	if !hmac.Equal(mac, proof(p.secret, role, dialler, listener, covered)) {
		return refuse(causeSecret, "cluster.secret of %s and of %s are not the same", c.id, p.self)
	}
	c.about, c.proven = a, true
	return nil
}

// freesSlots says whether a link's calls that wait have no slot there.
func (p *Peers) freesSlots(c *claim) bool { return min(p.speaks, c.maxProtocol) >= 2 }

// checkHello finds out whether the two can make a handshake at all.
func (p *Peers) checkHello(h *hello) error {
	switch {
	case h.minProtocol > p.speaks || h.maxProtocol < minProtocol:
		return refuse(causeProtocol, "%s speaks the protocols %d to %d, %s those from %d to %d",
			h.id, h.minProtocol, h.maxProtocol, p.self, minProtocol, p.speaks)
	case h.secret && p.secret == "":
		return refuse(causeSecret, "cluster.secret is set at %s and not at %s", h.id, p.self)
	case !h.secret && p.secret != "":
		return refuse(causeSecret, "cluster.secret is set at %s and not at %s", p.self, h.id)
	}
	return nil
}

// check compares what the other side says of itself with what this node knows.
func (p *Peers) check(c *claim) error {
	switch {
	case c.cluster != p.cluster:
		return refuse(causeCluster, "cluster.name is %s at %s, %s at %s", c.cluster, c.id, p.cluster, p.self)
	case c.ring != p.ring:
		return refuse(causeRing, "the ring has %s at %s, %s at %s", c.ring, c.id, p.ring, p.self)
	case c.id == p.self:
		return refuse(causeID, "duplicate id %s: both nodes have it", c.id)
	case p.others[c.id] == nil:
		return refuse(causeUnknown, "%s is not in cluster.peers of %s", c.id, p.self)
	case c.target != p.self:
		return refuse(causeAddress, "%s is at the address that cluster.peers of %s has for %s", p.self, c.id, c.target)
	}
	return nil
}

// greet makes the handshake of the side that dialled.
func (p *Peers) greet(conn io.ReadWriter, target string) (*claim, error) {
	mine := p.hello(target).appendTo(nil)
	if err := say(conn, sayHello, mine); err != nil {
		return nil, err
	}
	theirs, err := hear(conn, sayHello)
	if err != nil {
		return nil, err
	}
	h, err := parseHello(theirs)
	if err == nil {
		err = p.checkHello(&h)
	}
	switch {
	case err != nil:
	case h.id == p.self:
		err = refuse(causeID, "duplicate id %s: both nodes have it", h.id)
	case h.id != target:
		err = refuse(causeAddress, "%s is at the address that cluster.peers of %s has for %s", h.id, p.self, target)
	}
	if err != nil {
		return nil, turnAway(conn, err)
	}
	if err := say(conn, sayProof, p.prove(roleDialler, mine, theirs)); err != nil {
		return nil, err
	}
	body, err := hear(conn, sayProof)
	if err != nil {
		return nil, err
	}
	c := &claim{hello: h}
	if err := p.verify(c, body, roleListener, mine, theirs); err != nil {
		return nil, err
	}
	return c, p.check(c)
}

// welcome makes the handshake of the side that was dialled. The caller it is
// given may refuse for reasons of its own. The claim says, also when there is
// an error, as much as was heard.
func (p *Peers) welcome(conn io.ReadWriter, admit func(c *claim) error) (*claim, error) {
	c := &claim{}
	theirs, err := hear(conn, sayHello)
	if err != nil {
		return c, err
	}
	if c.hello, err = parseHello(theirs); err == nil {
		err = p.checkHello(&c.hello)
	}
	if err != nil {
		return c, turnAway(conn, err)
	}
	mine := p.hello(c.id).appendTo(nil)
	if err := say(conn, sayHello, mine); err != nil {
		return c, err
	}
	body, err := hear(conn, sayProof)
	if err != nil {
		return c, err
	}
	if err = p.verify(c, body, roleDialler, theirs, mine); err == nil {
		err = p.check(c)
	}
	if err == nil {
		err = admit(c)
	}
	if err != nil {
		return c, turnAway(conn, err)
	}
	return c, say(conn, sayProof, p.prove(roleListener, theirs, mine))
}
