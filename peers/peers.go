package peers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"kring/internal/throttle"
	"kring/link"
	"kring/membership"
)

const (
	// LinkPath is the route of links, which Accept answers.
	LinkPath = link.Path
	// UpgradeName is their protocol, in the header Upgrade.
	UpgradeName = link.UpgradeName
)

// Options are what New needs.
type Options struct {
	// Self is this node. Its URL is used only when Config.Peers is empty.
	Self   membership.Member
	Config membership.Config
	// Dial opens a connection to host:port. Tests give one to a network in memory.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// MaxFrameValue is the largest value that crosses a link, in bytes; 0 is 8 MiB.
	MaxFrameValue int64
	// Room bounds the large values that arrive here; nil: they have no bound.
	Room Room
	// Log gets what an operator should know; nil: nothing is logged.
	Log *slog.Logger
}

// Peers are the other nodes of the cluster, as this node knows and calls them.
type Peers struct {
	log      *slog.Logger
	dial     func(ctx context.Context, addr string) (net.Conn, error)
	node     link.Node // this node
	maxValue int
	start    time.Time // clock counts from here
	room     Room
	others   map[string]*peer
	ordered  []*peer // by id
	sharing  sharing

	view      atomic.Pointer[membership.View]
	standings atomic.Pointer[Standings] // written under mu
	notReady  atomic.Pointer[string]
	handler   Handler // set by Start, before anything runs
	started   int64   // clock of Start
	wasReady  bool    // of the monitor alone

	ticked, doubtless atomic.Int64 // clock of the monitor's last round, and selfDoubt.doubtless

	abandoned                    atomic.Int64
	mismatches, refusals, doubts atomic.Uint64
	brokenFrames                 atomic.Uint64

	notices *throttle.Lines[notice]
	running sync.WaitGroup // all goroutines; added to under mu, while ctx lives

	// mu guards all below, and the circuits.
	mu       sync.Mutex
	ctx      context.Context // from Start to Close
	cancel   context.CancelFunc
	changed  chan struct{} // closed and replaced when a circuit or a link changes
	outages  uint64        // of all members together
	pending  int           // connections before their handshake
	incoming []*incoming
}

// New reads the list of members. It starts nothing: see Start.
func New(o Options) (*Peers, error) {
	view, err := membership.OwnView(o.Config, o.Self)
	if err != nil {
		return nil, err
	}
	if o.Dial == nil && len(view.Members) > 1 {
		return nil, errors.New("peers: no Dial")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Room == nil {
		o.Room = boundless{}
	}
	p := &Peers{
		log: o.Log, dial: o.Dial,
		node:     link.Node{ID: o.Self.ID, Secret: o.Config.Secret, Cluster: o.Config.Name, Ring: o.Config.RingParameters()},
		maxValue: 8 << 20, room: o.Room, start: time.Now(), others: map[string]*peer{},
		sharing: sharing{loads: map[uint64]*shared{}},
		changed: make(chan struct{}), notices: throttle.New[notice](0),
	}
	if o.MaxFrameValue > 0 {
		p.maxValue = int(min(o.MaxFrameValue, 1<<30))
	}
	p.node.MaxValue, p.node.View, p.node.Clock, p.node.Check = uint64(p.maxValue), p.viewNumber, p.clock, p.check
	for p.node.Incarnation == 0 { // which stands for "not known"
		p.node.Incarnation = rand.Uint64()
	}
	for _, m := range view.Members {
		if m.ID != p.node.ID {
			pe := newPeer(p, m)
			p.others[m.ID] = pe
			p.ordered = append(p.ordered, pe)
		}
	}
	p.view.Store(view)
	p.publishLocked() // nothing runs yet
	return p, nil
}

// Start connects to the other members and lets their links in. Calls that come
// over them go to h. It must be called once, before the other methods that call.
func (p *Peers) Start(h Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = h
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.started = p.clock()
	p.ticked.Store(p.started)
	reason := ""
	if len(p.ordered) > 0 {
		reason = "starting"
		p.running.Go(func() { p.monitor(p.ctx) })
	}
	p.notReady.Store(&reason)
	for _, pe := range p.ordered {
		pe.lost.Store(p.started)
		p.running.Go(func() { pe.run(p.ctx) })
	}
}

// Close ends all links and waits for everything that Start and Accept began.
// It is safe to call twice, and without Start.
func (p *Peers) Close() error {
	p.mu.Lock()
	if p.cancel != nil {
		p.cancel()
	}
	p.mu.Unlock()
	p.running.Wait()
	return nil
}

// Self is this node's id.
func (p *Peers) Self() string { return p.node.ID }

// Others are the ids of the other members, in order.
func (p *Peers) Others() []string {
	ids := make([]string, len(p.ordered))
	for i, pe := range p.ordered {
		ids[i] = pe.id
	}
	return ids
}

// View is the current view.
func (p *Peers) View() *membership.View { return p.view.Load() }

// clock is the time since New on the monotonic clock, in nanoseconds.
func (p *Peers) clock() int64 { return int64(time.Since(p.start)) }

func (p *Peers) viewNumber() (number, id uint64) {
	v := p.view.Load()
	return v.Number, v.ID
}

// check refuses nodes that are not in the list of members.
func (p *Peers) check(c *link.Claim) error {
	if p.others[c.ID] == nil {
		return link.Refuse(link.CauseUnknown, "%s is not in cluster.peers of %s", c.ID, p.node.ID)
	}
	return nil
}

// attach notes a member's new link, or that it has none.
func (p *Peers) attach(pe *peer, l *outgoing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pe.link.Store(l)
	p.publishLocked()
}

// knowProcess notes which process of a member answers at its address.
func (p *Peers) knowProcess(pe *peer, incarnation uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pe.process != incarnation {
		pe.process = incarnation
		p.publishLocked()
	}
}

// hears are the members that this node has a link to and calls.
func (p *Peers) hears() []string {
	var ids []string
	s := p.standings.Load()
	for _, pe := range p.ordered {
		if pe.link.Load() != nil && s.CanCall(pe.id) {
			ids = append(ids, pe.id)
		}
	}
	return ids
}

func (p *Peers) links() []*incoming {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*incoming(nil), p.incoming...)
}

// addLink notes a link that another member has opened, and has this node connect to
// that member now if it is not connected. The caller must end the link that addLink
// returns, if any: it is one too many, or the node stops.
func (p *Peers) addLink(in *incoming) (excess *incoming) {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := 0
	for _, other := range p.incoming {
		if other.pe == in.pe {
			if same++; excess == nil {
				excess = other
			}
		}
	}
	if same < maxIncoming {
		excess = nil
	}
	if p.ctx.Err() != nil {
		excess = in
	}
	p.incoming = append(p.incoming, in)
	in.pe.account.asked(in.incarnation)
	select {
	case in.pe.kick <- struct{}{}:
	default:
	}
	return excess
}

// removeLink forgets a link that has ended. The account keeps what was delivered on
// it.
func (p *Peers) removeLink(in *incoming) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.incoming {
		if other == in {
			p.incoming = append(p.incoming[:i], p.incoming[i+1:]...)
			break
		}
	}
	in.pe.account.deliver(in.incarnation, in.delivered.Load())
}
