package peers

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// pong is the body of the answer to a ping.
type pong struct {
	sent      uint64 // the ping's body
	delivered uint64 // answers on links that have ended: see account
	hearsUs   bool   // the reader of the pong is among the members that its sender hears
}

// appendPong appends a pong whose sender hears the members in hears.
func appendPong(b []byte, sent, delivered uint64, hears []string) []byte {
	b = binary.BigEndian.AppendUint64(b, sent)
	b = binary.BigEndian.AppendUint64(b, delivered)
	return appendStrings(b, hears)
}

func parsePong(b []byte, self string) (pong, error) {
	d := decoder{b: b}
	g := pong{sent: d.uint64(), delivered: d.uint64()}
	for range d.length(len(d.b)) {
		if string(d.bytes()) == self {
			g.hearsUs = true
		}
		if d.err != nil {
			break
		}
	}
	return g, d.end()
}

// pong takes the answer to a ping: the member is alive.
func (l *link) pong(b []byte) error {
	p := l.pe.p
	g, err := parsePong(b, p.self)
	if err != nil {
		return err
	}
	l.hearsUs.Store(g.hearsUs)
	// Pings that waited while the member was silent, or this node slept, say
	// nothing of the link: an outage's are all answered at its end, most of them
	// when the first of their pongs has closed the circuit already.
	now, sent := p.clock(), int64(g.sent)
	slept := sent < p.doubtless.Load() || now-p.ticked.Load() > int64(tick+lateBy)
	if open, _ := l.pe.state(); !open && !slept && sent >= l.pe.calledSince.Load() {
		l.rtt.add(time.Duration(max(0, now-sent)))
	}
	l.pe.account.told(g.delivered)
	l.answeredPing.Store(true)
	p.closeCircuit(l.pe)
	return nil
}

// ping sends a ping, and has the next one follow after about a period.
func (l *link) ping(now int64, period time.Duration) {
	l.lastPing, l.nextPing = now, now+int64(jitter(period))
	if l.asked == 0 {
		l.asked = now
	}
	if l.unanswered == 0 || time.Duration(now-l.lastCounted) >= pingBusy {
		l.unanswered++
		l.lastCounted = now
	}
	l.w.urgent(framePing, func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, uint64(now)) })
}

// recent knows the newest samples of a duration.
type recent struct {
	mu      sync.Mutex // guards all below
	samples [128]time.Duration
	n       int // how many were added, ever
	p99     time.Duration
}

func (r *recent) add(sample time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[r.n%len(r.samples)] = sample
	r.n++
	have := min(r.n, len(r.samples))
	sorted := r.samples
	slices.Sort(sorted[:have])
	r.p99 = sorted[have-1-have/100]
}

// count is how many samples there are.
func (r *recent) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.n, len(r.samples))
}

// percentile99 is 0 without a sample.
func (r *recent) percentile99() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.p99
}
