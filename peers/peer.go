package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kring/internal/sockets"
	"kring/internal/throttle"
	"kring/membership"
)

const (
	dialTimeout      = 2 * time.Second
	handshakeTimeout = time.Second

	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// peer is another member: the link to it and its circuit.
type peer struct {
	p    *Peers
	id   string
	addr string
	host string
	kick chan struct{} // one token: the member was heard, connect now

	link  atomic.Pointer[link]
	tried atomic.Bool // a connection was tried, whatever came of it
	// starting: that it is not called was said, but not yet as a warning.
	starting atomic.Bool
	lost     atomic.Int64 // Peers.clock when it was last without a link

	refusal atomic.Pointer[refusal] // what came of the last attempt to connect, if that was it

	calledSince atomic.Int64 // Peers.clock when its circuit last closed

	circuit circuit // guarded by Peers.mu
	process uint64  // incarnation of the process that last answered; 0: none yet; guarded by Peers.mu

	calls, failed atomic.Uint64

	// mu guards the rest: the books of links to it that have ended.
	mu          sync.Mutex
	incarnation uint64 // of its process that the numbers below are about
	received    uint64 // counted answers that came over them
	missed      int64  // those that it says it sent over them, and that did not come
	vanished    int64  // the same of its earlier incarnations
}

func newPeer(p *Peers, m membership.Member) *peer {
	host := strings.TrimPrefix(m.URL, "http://")
	return &peer{p: p, id: m.ID, addr: host, host: host, kick: make(chan struct{}, 1), circuit: circuit{since: p.start}}
}

// state says whether the circuit is open, and gives a channel that is closed
// when that, or the link, may have changed.
func (pe *peer) state() (open bool, changed <-chan struct{}) {
	pe.p.mu.Lock()
	defer pe.p.mu.Unlock()
	return pe.circuit.isOpen, pe.p.changed
}

// run keeps a link to the member until ctx ends.
func (pe *peer) run(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		l, err := pe.connect(ctx)
		if ctx.Err() != nil {
			if err == nil {
				l.w.close(errLinkClosed)
			}
			return
		}
		if err != nil {
			pe.refused(err)
			wait := jitter(backoff)
			backoff = min(2*backoff, maxBackoff)
			switch {
			case asRefusal(err) != nil:
				wait = maxBackoff // somebody has to change a configuration first
			case sockets.Shortage(err):
				wait, backoff = jitter(minBackoff), minBackoff // nobody is bothered by it
			}
			pe.pause(ctx, wait)
			continue
		}
		began := time.Now()
		err = pe.keep(ctx, l)
		if ctx.Err() == nil {
			pe.p.log.Debug("link ended", slog.String("peer", pe.id), slog.Any("error", err))
		}
		if time.Since(began) > time.Second {
			backoff = minBackoff
			continue
		}
		pe.pause(ctx, jitter(backoff))
		backoff = min(2*backoff, maxBackoff)
	}
}

func (pe *peer) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-pe.kick:
	case <-ctx.Done():
	}
}

// refused opens the circuit after an attempt to connect that failed. Where this
// machine lacked what it takes, that says nothing of the member: only if it
// lasts does the monitor, as whenever there is no link.
func (pe *peer) refused(err error) {
	if sockets.Shortage(err) {
		pe.tried.Store(true)
		if _, due := pe.p.notices.Due(notice{"", causeShortage}, throttle.Once); due {
			pe.p.log.Error("no descriptor or port left for a link", slog.String("peer", pe.id), slog.Any("error", err))
		}
		return
	}
	r := asRefusal(err)
	pe.refusal.Store(r)
	if r != nil {
		pe.p.refusals.Add(1)
		pe.p.tripCircuit(pe, r.Error(), false)
		pe.p.tellRefusal(pe.id, r)
		return
	}
	reason := printable(err.Error())
	gone := errors.Is(err, syscall.ECONNREFUSED)
	if gone {
		reason = "nothing listens at its address"
	}
	defer pe.tried.Store(true)
	pe.p.openCircuit(pe, reason, gone)
}

// connect dials, upgrades and makes the handshake.
func (pe *peer) connect(ctx context.Context) (*link, error) {
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := pe.p.dial(dialCtx, pe.addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	// What is under way when the node stops must not hold it up.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	l, err := pe.upgrade(conn)
	if err != nil {
		conn.Close() // the error that counts is err
		return nil, err
	}
	return l, nil
}

// duplex is a connection whose reading side is buffered.
type duplex struct {
	net.Conn
	r *bufio.Reader
}

func (d duplex) Read(b []byte) (int, error) { return d.r.Read(b) }

func (pe *peer) upgrade(conn net.Conn) (*link, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		LinkPath, pe.host, UpgradeName)
	if err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	r := bufio.NewReaderSize(conn, chunkLen)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	response.Body.Close() // a 101 has none; of anything else the connection is dropped
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("upgrade: status %d", response.StatusCode)
	}
	c, err := pe.p.greet(duplex{conn, r}, pe.id)
	if err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	l := &link{
		pe: pe, conn: conn, reader: newFrameReader(r), w: newWriter(conn, pe.p.stamp),
		incarnation: c.incarnation, maxValue: int(min(c.maxValue, uint64(pe.p.maxValue))),
		slots: make(chan struct{}, min(max(1, c.maxCalls), maxCalls)), calls: map[uint64]*call{},
		freesSlots: pe.p.freesSlots(c),
	}
	pe.p.compareViews(c)
	return l, nil
}

// keep serves one link for as long as it lasts.
func (pe *peer) keep(ctx context.Context, l *link) error {
	p := pe.p
	stop := context.AfterFunc(ctx, func() { l.w.close(errLinkClosed) })
	defer stop()
	p.retireOthers(pe.id, l.incarnation)
	p.accepted(pe.id)
	pe.refusal.Store(nil)
	pe.begin(l.incarnation)
	p.knowProcess(pe, l.incarnation)
	select {
	case <-pe.kick: // meant an earlier attempt
	default:
	}
	now := p.clock()
	l.heard.Store(now)
	l.ping(now, pingBusy) // its pong closes the circuit
	p.attach(pe, l)
	pe.tried.Store(true)
	err := l.run()
	pe.end(l.counted.Load())
	pe.lost.Store(p.clock())
	p.attach(pe, nil)
	if brokenFrames(err) {
		p.brokenFrames.Add(1)
		p.tellBroken(pe.id, err)
	}
	return err
}

// begin, end and settle keep the books of answers that were lost on links:
// their sender has counted them as served, and nobody received them.
func (pe *peer) begin(incarnation uint64) {
	pe.mu.Lock()
	defer pe.mu.Unlock()
	if pe.incarnation != incarnation {
		pe.vanished += pe.missed
		pe.incarnation, pe.received, pe.missed = incarnation, 0, 0
	}
}

func (pe *peer) end(received uint64) {
	pe.mu.Lock()
	defer pe.mu.Unlock()
	pe.received += received
}

// settle takes what the member says it sent on links that have ended. It may
// not know yet of the last one's end, or die before it can say so; what is lost
// by then stays lost.
func (pe *peer) settle(settled uint64) {
	pe.mu.Lock()
	defer pe.mu.Unlock()
	pe.missed = max(pe.missed, int64(settled)-int64(pe.received))
}

func (pe *peer) lostAnswers() int64 {
	pe.mu.Lock()
	defer pe.mu.Unlock()
	return pe.vanished + pe.missed
}
