package peers

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	nonceLen = 32
	// maxHandshake bounds one message of a handshake.
	maxHandshake = 4 << 10
)

// hello is what each side of a new link says first.
type hello struct {
	minProtocol, maxProtocol byte
	secret                   bool // it has one, and asks for a proof
	id                       string
	target                   string // whom it means to talk to
	nonce                    [nonceLen]byte
}

func (h *hello) appendTo(b []byte) []byte {
	secret := byte(0)
	if h.secret {
		secret = 1
	}
	b = append(b, h.minProtocol, h.maxProtocol, secret)
	b = appendString(b, h.id)
	b = appendString(b, h.target)
	return append(b, h.nonce[:]...)
}

func parseHello(b []byte) (hello, error) {
	d := decoder{b: b}
	h := hello{minProtocol: d.byte(), maxProtocol: d.byte(), secret: d.byte() != 0, id: d.name(), target: d.name()}
	// A later protocol may say more after this; it is told the version first.
	if len(d.b) < nonceLen || (h.minProtocol <= protocol && len(d.b) != nonceLen) {
		d.fail("bad length of a hello")
	}
	copy(h.nonce[:], d.b)
	return h, d.err
}

// about is what each side says of its node, with its proof.
type about struct {
	cluster     string
	ring        string // membership.Config.RingParameters
	incarnation uint64
	view        uint64
	viewID      uint64
	maxValue    uint64 // longest value it takes, in bytes
	maxCalls    uint64 // most calls without a final answer it takes
}

func (a *about) appendTo(b []byte) []byte {
	b = appendString(b, a.cluster)
	b = appendString(b, a.ring)
	for _, n := range []uint64{a.incarnation, a.view, a.viewID, a.maxValue, a.maxCalls} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func (d *decoder) about() about {
	a := about{cluster: d.name(), ring: d.name()}
	for _, n := range []*uint64{&a.incarnation, &a.view, &a.viewID, &a.maxValue, &a.maxCalls} {
		*n = d.uint64()
	}
	return a
}

// name reads a string of at most maxName bytes.
func (d *decoder) name() string {
	s := d.string()
	if len(s) > maxName {
		d.fail("name too long")
	}
	return s
}

// parseProof reads the body of sayProof: the proof, and what it covers.
func parseProof(b []byte) (mac, covered []byte, a about, err error) {
	d := decoder{b: b}
	mac = d.bytes()
	covered = d.b
	a = d.about()
	return mac, covered, a, d.end()
}

// The kinds of handshake messages.
const (
	sayHello byte = iota + 1
	sayProof
	sayRefusal
)

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
		return nil, parseRefusal(body)
	}
	return body, nil
}
