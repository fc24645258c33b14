package peers

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"
	"unicode"

	"kring/internal/throttle"
)

// cause is what a notice is about. Those below causeRefusals cross links as
// one byte.
type cause uint8

const (
	causeOther    cause = iota
	causeProtocol       // no version of the frames that both speak
	causeSecret         // one has none, or another one
	causeCluster        // cluster.name
	causeRing           // cluster.hash, cluster.virtual_nodes
	causeID             // two processes have one id
	causeUnknown        // not in the list
	causeAddress        // another one than the list says is at the address
	causeRefusals

	causeMalformed // a handshake that is none
	causeBroken    // frames that make no sense
	causeView      // another list of members
	causeOusted    // another process of the same id
	causeShortage  // no descriptor or port left here
)

var causeNames = map[cause]string{
	causeOther: "other", causeProtocol: "protocol", causeSecret: "secret", causeCluster: "cluster_name",
	causeRing: "ring", causeID: "duplicate_id", causeUnknown: "unknown_member", causeAddress: "address",
	causeMalformed: "malformed",
}

// refusal is why two nodes do not talk. It reads the same at both: it says
// which of them has which value.
type refusal struct {
	cause  cause
	reason string
}

func (r *refusal) Error() string { return "refused: " + r.reason }

func refuse(c cause, format string, args ...any) error {
	return &refusal{c, printable(fmt.Sprintf(format, args...))}
}

// asRefusal is the refusal in err, or nil.
func asRefusal(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// appendTo and parseRefusal are for the body of sayRefusal.
func (r *refusal) appendTo(b []byte) []byte { return append(append(b, byte(r.cause)), r.reason...) }

func parseRefusal(b []byte) error {
	d := decoder{b: b}
	c := cause(d.byte())
	if c >= causeRefusals {
		c = causeOther
	}
	return refuse(c, "%s", d.b)
}

// maxReason bounds what of another node's words gets into the log, in bytes.
const maxReason = 600

// printable is s without what a log or a terminal could take for more than text.
func printable(s string) string {
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

// notice is what has been logged, and is not logged again: not ever, or not
// for a while. Nothing in it is of a stranger's choosing, so that a stranger
// cannot fill the table, nor keep others' lines out of the log.
type notice struct {
	member string // in the list; "" stands for everybody who is not
	cause  cause
}

// strangersEvery is how often a line may repeat that a stranger, or a broken
// member, can bring about as often as it likes.
const strangersEvery = time.Minute

// accepted forgets the refusals of a member: later ones are news.
func (p *Peers) accepted(member string) {
	for c := range causeRefusals {
		p.notices.Forget(notice{member, c})
	}
}

// tellRefusal logs that a member and this node do not talk, once for each
// cause, whoever of them dialled and whoever refused.
func (p *Peers) tellRefusal(member string, r *refusal) {
	if _, due := p.notices.Due(notice{member, r.cause}, throttle.Once); due {
		p.log.Error("peer link refused", slog.String("peer", member),
			slog.String("cause", causeNames[r.cause]), slog.String("reason", r.reason))
	}
}

// tellTurnedAway logs what came of a connection that was received and did not
// become a link. Who it came from is only known once it has proven itself;
// where there is no secret, everybody is whom they say they are.
func (p *Peers) tellTurnedAway(from net.Addr, c *claim, err error) {
	r := asRefusal(err)
	switch {
	case r != nil:
	case brokenFrames(err):
		r = &refusal{causeMalformed, printable(err.Error())}
	default:
		p.log.Debug("handshake with another node failed", slog.Any("error", err))
		return
	}
	if member := p.others[c.id]; member != nil {
		if c.proven || p.secret == "" {
			p.tellRefusal(c.id, r)
			return
		}
		if member.link.Load() == nil {
			return // what this node's own dialling comes to is said for certain
		}
	}
	skipped, due := p.notices.Due(notice{"", r.cause}, strangersEvery)
	if due {
		p.log.Warn("stranger's peer link refused", slog.String("from", from.String()), slog.String("cause", causeNames[r.cause]),
			slog.String("reason", r.reason), slog.Int("not_logged", skipped))
	}
}

// tellBroken logs that a member's link made no sense.
func (p *Peers) tellBroken(member string, err error) {
	if skipped, due := p.notices.Due(notice{member, causeBroken}, strangersEvery); due {
		p.log.Warn("peer broke the protocol", slog.String("peer", member), slog.Any("error", err), slog.Int("not_logged", skipped))
	}
}
