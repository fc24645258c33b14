package link

import (
	"encoding/binary"
	"time"

	"kring/internal/sockets"
)

// Watch sends the pings that are due, calls Peer.Silent when the link is silent, and
// ends a link that stays so. One goroutine calls it, every few dozen milliseconds.
func (l *Outgoing) Watch(r Round) {
	l.mu.Lock()
	waiting, busy := l.waiting, l.busy
	l.mu.Unlock()

	s, heard := &l.silence, l.heard.Load()
	pongs, rtt := l.RTT.Count(), l.RTT.Percentile99()
	limit := r.Patience(pongs, rtt)
	quiet := time.Duration(0)
	switch {
	case waiting > 0:
		if s.asked != 0 {
			busy = min(busy, s.asked) // a ping went unanswered before the call
		}
		quiet = time.Duration(r.Now - max(heard, busy, r.Doubtless))
	case s.asked != 0:
		quiet = time.Duration(r.Now - max(heard, s.asked, r.Doubtless))
		limit *= 4
	}
	// What this node slept through is not the other's silence.
	s.quiet = min(quiet, s.quiet+r.Awake)
	if s.quiet > limit && s.unanswered >= minUnanswered && !l.behind(limit) {
		l.peer.Silent()
	}
	if time.Duration(r.Now-max(heard, r.Doubtless)) > closeAfter {
		l.w.close(ErrSilent)
		return
	}

	if s.answeredPing.Swap(false) {
		s.asked, s.unanswered = 0, 0
	}
	period := PingIdle
	if waiting > 0 || pongs < EnoughPongs {
		period = PingBusy
		s.nextPing = min(s.nextPing, s.lastPing+int64(period))
	}
	if r.Now >= s.nextPing {
		l.ping(r.Now, period)
	}
}

// behind reports whether this node has not read what has come, for want of a
// processor. That excuses the other node for as long as the greatest patience lasts.
func (l *Outgoing) behind(limit time.Duration) bool {
	if l.silence.quiet > limit+maxPatience {
		return false
	}
	n, _ := sockets.Unread(l.conn)
	return n > 0
}

// Ping sends the first ping. Watch sends those that follow.
func (l *Outgoing) Ping() { l.ping(l.node.Clock(), PingBusy) }

// ping sends a ping, and has the next one follow after about a period.
func (l *Outgoing) ping(now int64, period time.Duration) {
	s := &l.silence
	s.lastPing, s.nextPing = now, now+int64(Jitter(period))
	if s.asked == 0 {
		s.asked = now
	}
	if s.unanswered == 0 || time.Duration(now-s.lastCounted) >= PingBusy {
		s.unanswered++
		s.lastCounted = now
	}
	l.w.urgent(framePing, func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, uint64(now)) })
}

// pong takes the answer to a ping: the other node is alive.
func (l *Outgoing) pong(h header) error {
	return l.reader.body(h, func(b []byte) error {
		l.silence.answeredPing.Store(true)
		return l.peer.Pong(int64(binary.BigEndian.Uint64(b)), b[8:])
	})
}

// pinged answers a ping.
func (in *Incoming) pinged(h header) error {
	return in.reader.body(h, func(sent []byte) error {
		says := in.handler.AppendPong(sent[:len(sent):len(sent)])
		in.w.urgent(framePong, func(b []byte) []byte { return append(b, says...) })
		return nil
	})
}

// Watch ends a link on which nothing has come for long, and tells the other node which
// calls take long. One goroutine calls it, every few dozen milliseconds.
func (in *Incoming) Watch(r Round) {
	if time.Duration(r.Now-max(in.heard.Load(), r.Doubtless)) > closeIncomingAfter {
		in.w.close(ErrSilent)
		return
	}
	in.tellSlow(r.Now)
}
