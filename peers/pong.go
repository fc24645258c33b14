package peers

import (
	"encoding/binary"
	"time"

	"kring/link"
)

// pong is what a member says in the answer to a ping.
type pong struct {
	delivered uint64 // answers on links that have ended: see account
	hearsUs   bool   // the reader of the pong is among the members that its sender hears
}

// appendPong appends a pong whose sender hears the members in hears.
func appendPong(b []byte, delivered uint64, hears []string) []byte {
	b = binary.BigEndian.AppendUint64(b, delivered)
	return link.AppendStrings(b, hears)
}

func parsePong(b []byte, self string) (pong, error) {
	d := link.Decoder{B: b}
	g := pong{delivered: d.Uint64()}
	for range d.Length(len(d.B)) {
		if string(d.Bytes()) == self {
			g.hearsUs = true
		}
		if d.Err != nil {
			break
		}
	}
	return g, d.End()
}

// AppendPong appends what this node says to a member that has sent a ping.
func (in *incoming) AppendPong(b []byte) []byte {
	return appendPong(b, in.pe.account.deliveredTo(in.incarnation), in.p.hears())
}

// Pong takes the answer to a ping: the member is alive.
func (l *outgoing) Pong(sent int64, says []byte) error {
	p := l.pe.p
	g, err := parsePong(says, p.node.ID)
	if err != nil {
		return err
	}
	l.hearsUs.Store(g.hearsUs)
	// The time of a ping that waited while the member was silent, or while this node
	// slept, says nothing of the link. At the end of an outage all its pings are
	// answered, most of them after the first pong has closed the circuit.
	now := p.clock()
	slept := sent < p.doubtless.Load() || now-p.ticked.Load() > int64(tick+lateBy)
	if open, _ := l.pe.state(); !open && !slept && sent >= l.pe.calledSince.Load() {
		l.RTT.Add(time.Duration(max(0, now-sent)))
	}
	l.pe.account.told(g.delivered)
	l.pe.close()
	return nil
}
