package link

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	nonceLen = 32
	// maxHandshake bounds one message of a handshake.
	maxHandshake = 4 << 10
	// MaxName bounds names in handshakes, in bytes.
	MaxName = 256
)

// hello is what each side of a new link says first.
type hello struct {
	MinProtocol, MaxProtocol byte
	secret                   bool // it has one, and asks for a proof
	ID                       string
	Target                   string // the node that it means to talk to
	nonce                    [nonceLen]byte
}

func (h *hello) appendTo(b []byte) []byte {
	secret := byte(0)
	if h.secret {
		secret = 1
	}
	b = append(b, h.MinProtocol, h.MaxProtocol, secret)
	b = AppendString(b, h.ID)
	b = AppendString(b, h.Target)
	return append(b, h.nonce[:]...)
}

func parseHello(b []byte) (hello, error) {
	d := Decoder{B: b}
	h := hello{MinProtocol: d.Byte(), MaxProtocol: d.Byte(), secret: d.Byte() != 0, ID: d.name(), Target: d.name()}
	// A later protocol may say more after this; it is told the version first.
	if len(d.B) < nonceLen || (h.MinProtocol <= Protocol && len(d.B) != nonceLen) {
		d.Fail("bad length of a hello")
	}
	copy(h.nonce[:], d.B)
	return h, d.Err
}

// about is what each side says of its node, with its proof.
type about struct {
	Cluster     string
	Ring        string
	Incarnation uint64
	View        uint64
	ViewID      uint64
	MaxValue    uint64 // longest value it takes, in bytes
	MaxCalls    uint64 // most calls without a final answer it takes
}

func (a *about) appendTo(b []byte) []byte {
	b = AppendString(b, a.Cluster)
	b = AppendString(b, a.Ring)
	for _, n := range []uint64{a.Incarnation, a.View, a.ViewID, a.MaxValue, a.MaxCalls} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func (d *Decoder) about() about {
	a := about{Cluster: d.name(), Ring: d.name()}
	for _, n := range []*uint64{&a.Incarnation, &a.View, &a.ViewID, &a.MaxValue, &a.MaxCalls} {
		*n = d.Uint64()
	}
	return a
}

// name reads a text of at most MaxName bytes.
func (d *Decoder) name() string {
	s := d.Text()
	if len(s) > MaxName {
		d.Fail("name too long")
	}
	return s
}

// parseProof reads the body of sayProof: the proof, and what it covers.
func parseProof(b []byte) (mac, covered []byte, a about, err error) {
	d := Decoder{B: b}
	mac = d.Bytes()
	covered = d.B
	a = d.about()
	return mac, covered, a, d.End()
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

// hear reads a message of the kind that is due. A refusal is returned as error.
func hear(r io.Reader, due byte) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxHandshake || (head[4] != due && head[4] != sayRefusal) {
		return nil, fmt.Errorf("%w: message %d of %d bytes in a handshake", ErrBadFrame, head[4], n)
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
