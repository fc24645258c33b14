package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"kring/internal/sockets"
	"kring/internal/throttle"
	"kring/link"
	"kring/membership"
)

const (
	dialTimeout = 2 * time.Second

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

	link  atomic.Pointer[outgoing]
	tried atomic.Bool // a connection was tried, with success or without
	// starting: the log says that it is not called, but not yet as a warning.
	starting atomic.Bool
	lost     atomic.Int64 // Peers.clock when it was last without a link

	refusal atomic.Pointer[link.Refusal] // of the last attempt to connect; nil: it was not refused

	calledSince atomic.Int64 // Peers.clock when its circuit last closed

	circuit circuit // guarded by Peers.mu
	process uint64  // incarnation of the process that last answered; 0: none yet; guarded by Peers.mu

	calls, failed atomic.Uint64

	account account
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
				l.Close()
			}
			return
		}
		if err != nil {
			pe.refused(err)
			wait := link.Jitter(backoff)
			backoff = min(2*backoff, maxBackoff)
			switch {
			case link.AsRefusal(err) != nil:
				wait = maxBackoff // an operator has to change a configuration first
			case sockets.Shortage(err):
				wait, backoff = link.Jitter(minBackoff), minBackoff // such attempts reach no other machine
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
		pe.pause(ctx, link.Jitter(backoff))
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

// refused opens the circuit after an attempt to connect that failed. It does not if
// this machine lacked something to connect with: that says nothing of the member. If
// it lasts, the monitor opens the circuit, as for any member without a link.
func (pe *peer) refused(err error) {
	if sockets.Shortage(err) {
		pe.tried.Store(true)
		if _, due := pe.p.notices.Due(notice{"", noticeShortage}, throttle.Once); due {
			pe.p.log.Error("no descriptor or port left for a link", slog.String("peer", pe.id), slog.Any("error", err))
		}
		return
	}
	r := link.AsRefusal(err)
	pe.refusal.Store(r)
	if r != nil {
		pe.p.refusals.Add(1)
		pe.open(r.Error(), false)
		pe.p.tellRefusal(pe.id, r)
		return
	}
	reason := link.Printable(err.Error())
	gone := errors.Is(err, syscall.ECONNREFUSED)
	if gone {
		reason = "nothing listens at its address"
	}
	defer pe.tried.Store(true)
	pe.tellOpen(reason, pe.open(reason, gone))
}

// connect dials, upgrades and makes the handshake.
func (pe *peer) connect(ctx context.Context) (*outgoing, error) {
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := pe.p.dial(dialCtx, pe.addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	// A handshake that is under way must not hold up the end of this node.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	c, r, err := pe.p.node.Greet(conn, pe.host, pe.id)
	if err != nil {
		conn.Close() // the error that counts is err
		return nil, err
	}
	pe.p.compareViews(c)
	l := &outgoing{pe: pe, incarnation: c.Incarnation, maxValue: int(min(c.MaxValue, uint64(pe.p.maxValue)))}
	l.Outgoing = link.NewOutgoing(&pe.p.node, c, conn, r, l)
	return l, nil
}

// keep holds one link until it ends.
func (pe *peer) keep(ctx context.Context, l *outgoing) error {
	p := pe.p
	stop := context.AfterFunc(ctx, l.Close)
	defer stop()
	p.retireOthers(pe.id, l.incarnation)
	p.accepted(pe.id)
	pe.refusal.Store(nil)
	pe.account.answers(l.incarnation)
	p.knowProcess(pe, l.incarnation)
	select {
	case <-pe.kick: // it was for an earlier attempt
	default:
	}
	l.Ping() // its pong closes the circuit
	p.attach(pe, l)
	pe.tried.Store(true)
	err := l.Run()
	pe.account.receive(l.received.Load())
	pe.lost.Store(p.clock())
	p.attach(pe, nil)
	p.tellEnd(pe, err)
	return err
}
