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
	"kring/membership"
)

// LinkPath is the route of Accept.
const LinkPath = "/v1/peer-link"

// maxName bounds names in handshakes, in bytes.
const maxName = membership.MaxName

// Options are what New needs.
type Options struct {
	// Self is this node. Its URL is used only when Config.Peers is empty.
	Self   membership.Member
	Config membership.Config
	// Dial opens a connection to host:port. The node gives it, so that a
	// network in memory can stand in.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// MaxFrameValue is the largest value that crosses a link, in bytes; 0 is 8 MiB.
	MaxFrameValue int64
	// Room bounds the large values that arrive here; nil: nothing does.
	Room Room
	// Log may be nil.
	Log *slog.Logger
}

// Peers are the other nodes of the cluster, as this node knows and calls them.
type Peers struct {
	log         *slog.Logger
	dial        func(ctx context.Context, addr string) (net.Conn, error)
	self        string
	incarnation uint64
	cluster     string
	secret      string
	ring        string // membership.Config.RingParameters
	maxValue    int
	speaks      byte      // protocol; a test may have it speak an older one
	start       time.Time // clock counts from here
	room        Room
	others      map[string]*peer
	ordered     []*peer // by id
	sharing     sharing

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
	ended    map[string]endedLinks // by member, about incoming links that have ended
}

// endedLinks is how many answers were counted here and sent on links, now
// ended, from one process of a member.
type endedLinks struct {
	incarnation uint64
	settled     uint64
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
		log: o.Log, dial: o.Dial, self: o.Self.ID,
		cluster: o.Config.Name, secret: o.Config.Secret, ring: o.Config.RingParameters(),
		maxValue: 8 << 20, room: o.Room, speaks: protocol, start: time.Now(), others: map[string]*peer{},
		sharing: sharing{loads: map[uint64]*shared{}},
		changed: make(chan struct{}), ended: map[string]endedLinks{}, notices: throttle.New[notice](0),
	}
	if o.MaxFrameValue > 0 {
		p.maxValue = int(min(o.MaxFrameValue, 1<<30))
	}
	for p.incarnation == 0 { // which stands for "not known"
		p.incarnation = rand.Uint64()
	}
	for _, m := range view.Members {
		if m.ID != p.self {
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
func (p *Peers) Self() string { return p.self }

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

// stamp appends the header of a frame from this node.
func (p *Peers) stamp(b []byte, typ frameType, id uint64) []byte {
	return appendHeader(b, typ, id, p.view.Load().Number, p.incarnation)
}

// attach notes a member's new link, or that it has none.
func (p *Peers) attach(pe *peer, l *link) {
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

// addLink takes a link from another member in, and has this node connect to
// that member now if it is not connected. The link that it returns, or nil, is
// to be ended: it is one too many, or the node stops.
func (p *Peers) addLink(in *incoming) (excess *incoming) {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := 0
	for _, other := range p.incoming {
		if other.id == in.id {
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
	if e := p.ended[in.id]; e.incarnation != in.incarnation {
		p.ended[in.id] = endedLinks{incarnation: in.incarnation}
	}
	select {
	case p.others[in.id].kick <- struct{}{}:
	default:
	}
	return excess
}

// removeLink forgets a link that has ended, but not what was counted on it.
func (p *Peers) removeLink(in *incoming) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.incoming {
		if other == in {
			p.incoming = append(p.incoming[:i], p.incoming[i+1:]...)
			break
		}
	}
	if e := p.ended[in.id]; e.incarnation == in.incarnation {
		e.settled += in.settled.Load()
		p.ended[in.id] = e
	}
}

// settledWith is how many answers were counted here on links, now ended, from
// one process of a member.
func (p *Peers) settledWith(id string, incarnation uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.ended[id]; e.incarnation == incarnation {
		return e.settled
	}
	return 0
}
