package peers

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"kring/internal/throttle"
	"kring/link"
)

// notice names a log line that is not repeated, ever or for a while. Nothing that an
// unknown node sends is part of it. So such a node can neither fill the table, nor keep
// lines about others out of the log.
type notice struct {
	member string // in the list; "" stands for all nodes that are not
	about  string // the cause of a refusal, or one of the following
}

const (
	noticeBroken   = "broken frames"
	noticeView     = "another list of members"
	noticeOusted   = "another process of the same id"
	noticeShortage = "no descriptor or port left"
)

// unknownEvery is how often a line may repeat that an unknown node or a broken member
// could cause without end.
const unknownEvery = time.Minute

// accepted forgets the refusals of a member: later ones are news.
func (p *Peers) accepted(member string) {
	for c := range link.CauseMalformed {
		p.notices.Forget(notice{member, c.String()})
	}
}

// tellRefusal logs that a member and this node do not talk: once for each cause,
// whichever of them dialled and whichever refused.
func (p *Peers) tellRefusal(member string, r *link.Refusal) {
	if _, due := p.notices.Due(notice{member, r.Cause.String()}, throttle.Once); due {
		p.log.Error("peer link refused", slog.String("peer", member),
			slog.String("cause", r.Cause.String()), slog.String("reason", r.Reason))
	}
}

// tellTurnedAway logs that a connection did not become a link. The node at its other
// end is known only if it has proved that it knows the secret. In a cluster without a
// secret each node is believed.
func (p *Peers) tellTurnedAway(from net.Addr, c *link.Claim, err error) {
	r := link.AsRefusal(err)
	switch {
	case r != nil:
	case errors.Is(err, link.ErrBadFrame):
		r = &link.Refusal{Cause: link.CauseMalformed, Reason: link.Printable(err.Error())}
	default:
		p.log.Debug("handshake with another node failed", slog.Any("error", err))
		return
	}
	if member := p.others[c.ID]; member != nil {
		if c.Proven || p.node.Secret == "" {
			p.tellRefusal(c.ID, r)
			return
		}
		if member.link.Load() == nil {
			return // this node dials the member, too, and then knows for certain
		}
	}
	skipped, due := p.notices.Due(notice{"", r.Cause.String()}, unknownEvery)
	if due {
		p.log.Warn("unknown node's peer link refused", slog.String("from", from.String()), slog.String("cause", r.Cause.String()),
			slog.String("reason", r.Reason), slog.Int("not_logged", skipped))
	}
}

// tellEnd counts and logs that a member's link has ended because of what it carried.
func (p *Peers) tellEnd(pe *peer, err error) {
	if !errors.Is(err, link.ErrBadFrame) {
		return
	}
	p.brokenFrames.Add(1)
	if skipped, due := p.notices.Due(notice{pe.id, noticeBroken}, unknownEvery); due {
		p.log.Warn("peer broke the protocol", slog.String("peer", pe.id), slog.Any("error", err), slog.Int("not_logged", skipped))
	}
}
