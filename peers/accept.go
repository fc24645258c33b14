package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"kring/cache"
	"kring/internal/throttle"
	"kring/link"
)

const (
	// maxPending bounds connections that have not made their handshake yet.
	maxPending = 256
	// maxIncoming bounds links from one member; a newer one ends the oldest.
	maxIncoming = 4
	// aliveWithin: a member whose link brought a frame this recently lives, so
	// another process of the same id is an impostor, not its successor.
	aliveWithin = time.Second
)

// ErrNoUpgrade is the error of a request that asks for no link.
var ErrNoUpgrade = errors.New("the request asks for no upgrade to " + UpgradeName)

// Accept receives another node's link: it upgrades the connection, makes the
// handshake and serves calls until the link ends or Close is called. The
// request's context does not matter after the upgrade. After an error the connection
// has not been upgraded, and the caller answers the request.
func (p *Peers) Accept(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), UpgradeName) {
		return ErrNoUpgrade
	}
	ctx, done := p.enter()
	if ctx == nil {
		return cache.ErrOverloaded.With("no more links between nodes now")
	}
	defer p.running.Done()
	defer done()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("upgrade a peer link: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	c, err := p.node.Welcome(conn, buffered.Reader, p.admit)
	done()
	if err != nil {
		conn.Close() // the error that counts is err
		p.refusals.Add(1)
		p.tellTurnedAway(conn.RemoteAddr(), c, err)
		return nil
	}
	p.compareViews(c)
	in := &incoming{p: p, pe: p.others[c.ID], incarnation: c.Incarnation, maxValue: int(min(c.MaxValue, uint64(p.maxValue)))}
	in.Incoming = link.NewIncoming(&p.node, c, conn, buffered.Reader, in)
	p.serve(ctx, in)
	return nil
}

// serve answers the calls of a link until it ends.
func (p *Peers) serve(ctx context.Context, in *incoming) {
	if excess := p.addLink(in); excess != nil {
		excess.Close()
	}
	err := in.Run(ctx)
	p.removeLink(in)
	p.tellEnd(in.pe, err)
}

// enter counts one more connection before its handshake, until done is called. The
// context is nil if there are too many, or if the node does not run. Else Close waits
// for the caller, who calls running.Done.
func (p *Peers) enter() (ctx context.Context, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil || p.ctx.Err() != nil || p.pending >= maxPending {
		return nil, nil
	}
	p.pending++
	p.running.Add(1)
	entered := true
	return p.ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if entered {
			p.pending--
		}
		entered = false
	}
}

// admit refuses a second living process with the id of a member that this node
// has a living link to: the address in the list decides who is the real one.
func (p *Peers) admit(c *link.Claim) error {
	pe := p.others[c.ID]
	l := pe.link.Load()
	if l == nil || l.incarnation == c.Incarnation {
		return nil
	}
	if open, _ := pe.state(); !open && time.Duration(p.clock()-l.Heard()) < aliveWithin {
		return link.Refuse(link.CauseID, "duplicate id %s: another process of this id lives at %s", c.ID, pe.addr)
	}
	return nil
}

// retireOthers ends the links from processes with the id of a member that are
// not the one that answers at its address.
func (p *Peers) retireOthers(id string, incarnation uint64) {
	for _, in := range p.links() {
		if in.pe.id == id && in.incarnation != incarnation {
			in.Close()
			if skipped, due := p.notices.Due(notice{id, noticeOusted}, unknownEvery); due {
				p.log.Warn("link of another process with this id ended: a predecessor's, or the id is used twice",
					slog.String("peer", id), slog.Int("not_logged", skipped))
			}
		}
	}
}

// compareViews notes a member whose list differs. The link works all the same:
// a member that does not act for a key answers "not owner".
func (p *Peers) compareViews(c *link.Claim) {
	if c.ViewID == p.view.Load().ID {
		return
	}
	p.mismatches.Add(1)
	if _, due := p.notices.Due(notice{c.ID, noticeView}, throttle.Once); due {
		p.log.Warn("peer has another list of members", slog.String("peer", c.ID))
	}
}
