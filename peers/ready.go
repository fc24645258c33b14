package peers

import (
	"log/slog"
	"time"
)

// readyWithin bounds how long a node waits to be heard by the others.
const readyWithin = 3 * time.Second

// updateReady notes whether clients should be sent to this node.
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

// notHeardBy says what is missing until all members have been tried and all that
// this node calls hear it.
func (p *Peers) notHeardBy() (reason string) {
	for _, pe := range p.ordered {
		open, _ := pe.state()
		switch l := pe.link.Load(); {
		case !pe.tried.Load():
			reason = "peer " + pe.id + " has not been tried yet"
		case l == nil && open: // it is not there; when it comes, it waits for this node
		case open || l == nil:
			reason = "peer " + pe.id + " has not answered yet"
		case !l.hearsUs.Load():
			reason = "peer " + pe.id + " does not hear this node yet"
		}
	}
	return reason
}

// outcast says why this node would be a second cluster beside the members', or
// "": those that answer refuse it, and none takes it. A node that has been
// ready believes that of itself only when most members refuse it: one that was
// started with a mistake must not take the others out of service.
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

// Ready reports whether clients should be sent to this node, and why not. At
// the start each other member was tried, and each that is called hears this
// one; for that it waits no longer than 3 s. A node that is refused by all whom
// it reaches is not ready for as long as that lasts.
func (p *Peers) Ready() (ok bool, reason string) {
	if reason := p.notReady.Load(); reason != nil {
		return *reason == "", *reason
	}
	return false, "not started"
}
