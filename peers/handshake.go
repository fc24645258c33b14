package peers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// protocol is the version of the frames that this code speaks; minProtocol is
// the oldest that it still does.
const (
	protocol    = 1
	minProtocol = 1
)

const (
	nonceLen = 32
	// maxHandshake bounds one message of a handshake.
	maxHandshake = 4 << 10
)

// hello is what each side of a new link says of itself. The side that dialled
// speaks first; then come four messages in all:
//
//	→ hello   ← hello or refusal   → proof or refusal   ← proof or refusal
//
// A proof is HMAC-SHA256 under the secret over the role and both hellos, each
// of which has a fresh nonce: a recorded one proves nothing later, and one
// cannot be sent back to who made it. Without a secret it is empty.
// The dialler proves itself first, so that a stranger cannot have this node
// compute material for guessing at the secret.
type hello struct {
	minProtocol, maxProtocol byte
	secret                   bool // it has one, and asks for a proof
	cluster                  string
	id                       string
	target                   string // whom it means to talk to
	incarnation              uint64
	ring                     string // ringParameters
	view                     uint64
	viewID                   uint64
	maxValue                 uint64 // longest value it takes, in bytes
	maxCalls                 uint64 // most calls without a final answer it takes
	nonce                    [nonceLen]byte
}

// refusal is why one side will not talk to the other. It is for operators, at
// both ends.
type refusal struct{ reason string }

func (r *refusal) Error() string { return "refused: " + r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// The kinds of handshake messages.
const (
	sayHello byte = iota + 1
	sayProof
	sayRefusal
)

func (h *hello) appendTo(b []byte) []byte {
	secret := byte(0)
	if h.secret {
		secret = 1
	}
	b = append(b, h.minProtocol, h.maxProtocol, secret)
	for _, s := range []string{h.cluster, h.id, h.target, h.ring} {
		b = appendString(b, s)
	}
	for _, n := range []uint64{h.incarnation, h.view, h.viewID, h.maxValue, h.maxCalls} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return append(b, h.nonce[:]...)
}

func parseHello(b []byte) (hello, error) {
	d := decoder{b: b}
	h := hello{minProtocol: d.byte(), maxProtocol: d.byte(), secret: d.byte() != 0}
	for _, s := range []*string{&h.cluster, &h.id, &h.target, &h.ring} {
		if *s = d.string(); len(*s) > maxName {
			d.fail("name too long")
		}
	}
	for _, n := range []*uint64{&h.incarnation, &h.view, &h.viewID, &h.maxValue, &h.maxCalls} {
		*n = d.uint64()
	}
	// A later protocol may say more after this; it is told the version first.
	if len(d.b) < nonceLen || (h.minProtocol <= protocol && len(d.b) != nonceLen) {
		d.fail("bad length of a hello")
	}
	copy(h.nonce[:], d.b)
	return h, d.err
}

// say writes one message of a handshake.
func say(w io.Writer, kind byte, body []byte) error {
	b := make([]byte, 0, 5+len(body))
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, kind)
	_, err := w.Write(append(b, body...))
	return err
}

// hear reads a message of the kind that is due. A refusal comes back as error.
func hear(r io.Reader, due byte) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxHandshake || (head[4] != due && head[4] != sayRefusal) {
		return nil, fmt.Errorf("%w: message %d of %d bytes in a handshake", errBadFrame, head[4], n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	if head[4] == sayRefusal {
		return nil, refuse("%.300q", body)
	}
	return body, nil
}

// The roles that proofs are bound to.
const (
	roleDialler  = "kring-link/1 dialler"
	roleListener = "kring-link/1 listener"
)

func proof(secret, role string, dialler, listener []byte) []byte {
	if secret == "" {
		return nil
	}
	mac := hmac.New(sha256.New, []byte(secret))
	for _, part := range [][]byte{[]byte(role), dialler, listener} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) // a hash never fails
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// turnAway tells the other side why, and returns why.
func turnAway(conn io.Writer, err error) error {
	reason := strings.TrimPrefix(err.Error(), "refused: ")
	if sayErr := say(conn, sayRefusal, []byte(reason)); sayErr != nil {
		return fmt.Errorf("%w (and could not say so: %w)", err, sayErr)
	}
	return err
}

func (p *Peers) hello(target string) *hello {
	v := p.view.Load()
	h := &hello{
		minProtocol: minProtocol, maxProtocol: protocol, secret: p.secret != "",
		cluster: p.cluster, id: p.self, target: target, incarnation: p.incarnation,
		ring: p.ring, view: v.Number, viewID: v.ID,
		maxValue: uint64(p.maxValue), maxCalls: maxCalls,
	}
	rand.Read(h.nonce[:]) // never fails: the program ends instead
	return h
}

// check compares what the other side says of itself with what this node knows.
func (p *Peers) check(h *hello) error {
	switch {
	case h.minProtocol > protocol || h.maxProtocol < minProtocol:
		return refuse("protocol %d to %d, here %d to %d", h.minProtocol, h.maxProtocol, minProtocol, protocol)
	case h.secret != (p.secret != ""):
		return refuse("a cluster secret is set on one side only")
	case h.cluster != p.cluster:
		return refuse("cluster name %q, here %q", h.cluster, p.cluster)
	case h.ring != p.ring:
		return refuse("ring parameters %q, here %q", h.ring, p.ring)
	case h.id == p.self:
		return refuse("duplicate id %q: it is this node's too", h.id)
	case p.others[h.id] == nil:
		return refuse("unknown member %q", h.id)
	case h.target != p.self:
		return refuse("%q is meant, this is %q", h.target, p.self)
	}
	return nil
}

// greet makes the handshake of the side that dialled.
func (p *Peers) greet(conn io.ReadWriter, target string) (*hello, error) {
	mine := p.hello(target).appendTo(nil)
	if err := say(conn, sayHello, mine); err != nil {
		return nil, err
	}
	theirs, err := hear(conn, sayHello)
	if err != nil {
		return nil, err
	}
	h, err := parseHello(theirs)
	if err == nil && h.id != target && h.id != p.self {
		err = refuse("%q answers at the address of %q", h.id, target)
	}
	if err == nil {
		err = p.check(&h)
	}
	if err != nil {
		return nil, turnAway(conn, err)
	}
	if err := say(conn, sayProof, proof(p.secret, roleDialler, mine, theirs)); err != nil {
		return nil, err
	}
	got, err := hear(conn, sayProof)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(got, proof(p.secret, roleListener, mine, theirs)) {
		return nil, refuse("the other side does not know the cluster secret")
	}
	return &h, nil
}

// welcome makes the handshake of the side that was dialled. The caller it is
// given may refuse for reasons of its own.
func (p *Peers) welcome(conn io.ReadWriter, admit func(h *hello) error) (*hello, error) {
	theirs, err := hear(conn, sayHello)
	if err != nil {
		return nil, err
	}
	h, err := parseHello(theirs)
	if err == nil {
		err = p.check(&h)
	}
	if err != nil {
		return nil, turnAway(conn, err)
	}
	mine := p.hello(h.id).appendTo(nil)
	if err := say(conn, sayHello, mine); err != nil {
		return nil, err
	}
	got, err := hear(conn, sayProof)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(got, proof(p.secret, roleDialler, theirs, mine)) {
		return nil, turnAway(conn, refuse("the other side does not know the cluster secret"))
	}
	if err := admit(&h); err != nil {
		return nil, turnAway(conn, err)
	}
	return &h, say(conn, sayProof, proof(p.secret, roleListener, theirs, mine))
}
