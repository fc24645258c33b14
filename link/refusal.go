package link

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Cause is why two nodes do not talk. It crosses links as one byte.
type Cause uint8

// The causes of a Refusal. CauseMalformed and what follows it do not cross links.
const (
	CauseOther     Cause = iota
	CauseProtocol        // no version of the frames that both speak
	CauseSecret          // one has none, or another one
	CauseCluster         // cluster.name
	CauseRing            // cluster.hash, cluster.virtual_nodes
	CauseID              // two processes have one id
	CauseUnknown         // not in the list
	CauseAddress         // another node than the list says is at the address
	CauseMalformed       // its handshake makes no sense
)

var causeNames = [...]string{
	CauseOther: "other", CauseProtocol: "protocol", CauseSecret: "secret", CauseCluster: "cluster_name",
	CauseRing: "ring", CauseID: "duplicate_id", CauseUnknown: "unknown_member", CauseAddress: "address",
	CauseMalformed: "malformed",
}

func (c Cause) String() string { return causeNames[c] }

// Refusal is the error of two nodes that do not talk. It reads the same at both: it
// says which of them has which value.
type Refusal struct {
	Cause  Cause
	Reason string
}

func (r *Refusal) Error() string { return "refused: " + r.Reason }

// Refuse makes a Refusal whose reason is safe to log.
func Refuse(c Cause, format string, args ...any) error {
	return &Refusal{c, Printable(fmt.Sprintf(format, args...))}
}

// AsRefusal is the Refusal in err, or nil.
func AsRefusal(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// appendTo and parseRefusal are for the body of sayRefusal.
func (r *Refusal) appendTo(b []byte) []byte { return append(append(b, byte(r.Cause)), r.Reason...) }

func parseRefusal(b []byte) error {
	d := Decoder{B: b}
	c := Cause(d.Byte())
	if c >= CauseMalformed {
		c = CauseOther
	}
	return Refuse(c, "%s", d.B)
}

// maxReason bounds how much of another node's words gets into the log, in bytes.
const maxReason = 600

// Printable is s without what a log or a terminal could take for more than text.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}
