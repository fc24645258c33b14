package peers

import (
	"log/slog"
	"time"
)

// readyWithin bounds how long a node waits to be heard by the others.
const readyWithin = 3 * time.Second

// updateReady notes whether this node is ready: see Ready.
func (p *Peers) updateReady(now int64) {
	reason, overdue := p.outcast(), ""
	_, last := p.Ready()
	wasReady := p.wasReady
	if reason == "" && !p.wasReady {
		if reason = p.notHeardBy(); reason != "" && now > p.started+int64(readyWithin) {
			reason, overdue = "", reason
		}
		p.wasReady = reason == ""
	}
	p.notReady.Store(&reason)
	switch {
	case overdue != "":
		p.log.Warn("ready although not heard by all", slog.String("reason", overdue))
	case wasReady && reason != "" && last == "":
		p.log.Error("no longer ready", slog.String("reason", reason))
	}
}

// notHeardBy names a member that was not tried yet, or that this node calls and that
// does not hear it. "": there is no such member.
func (p *Peers) notHeardBy() (reason string) {
	for _, pe := range p.ordered {
		open, _ := pe.state()
		switch l := pe.link.Load(); {
		case !pe.tried.Load():
			reason = "peer " + pe.id + " has not been tried yet"
		case l == nil && open: // the member is not there; when it starts, it waits for this node
		case open || l == nil:
			reason = "peer " + pe.id + " has not answered yet"
		case !l.hearsUs.Load():
			reason = "peer " + pe.id + " does not hear this node yet"
		}
	}
	return reason
}

// outcast says why this node would be a cluster of its own: all members that answer
// refuse it. "": it would not. A node that has been ready believes so only when most
// members refuse it: one member that was started with a mistake must not take the
// others out of service.
func (p *Peers) outcast() (reason string) {
	refusing := 0
	for _, pe := range p.ordered {
		if pe.link.Load() != nil {
			return ""
		}
		if r := pe.refusal.Load(); r != nil {
			if refusing++; refusing == 1 {
				reason = "refused by " + pe.id + ": " + r.Reason
			}
		}
	}
	if p.wasReady && 2*refusing <= len(p.ordered)+1 {
		return ""
	}
	return reason
}

// Ready reports whether clients should be sent to this node, and why not. A node that
// starts is ready when it has tried each other member, and each that it calls hears
// it; but it waits no longer than 3 s for that. While all members that it reaches
// refuse it, a node is not ready.
func (p *Peers) Ready() (ok bool, reason string) {
	if reason := p.notReady.Load(); reason != nil {
		return *reason == "", *reason
	}
	return false, "not started"
}
