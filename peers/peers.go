package peers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"kring/cache"
)

// LinkPath is the route that ServeHTTP belongs to.
const LinkPath = "/v1/peer-link"

// maxName bounds names in handshakes and frames, in bytes.
const maxName = 256

// Server answers other nodes' calls. *cache.Cache is one.
type Server interface {
	// Serve acts for a request here, whoever owns its key.
	Serve(ctx context.Context, req *cache.Request) (cache.Answer, error)
	// Settle says that the answer of a get reached the link, or was lost.
	Settle(kind cache.Kind, delivered bool)
}

// Keeper holds copies. *cache.Cache is one.
type Keeper interface {
	DropGroup(group string)
	Copy(key cache.Key) (cache.Copy, bool)
}

// Handler is what a node's links lead to.
type Handler interface {
	Server
	Keeper
}

// Options are what New needs.
type Options struct {
	// Self is this node. Its URL is used only when Config.Peers is empty.
	Self   Member
	Config Config
	// Dial opens a connection to host:port. The node gives it, so that a
	// network in memory can stand in.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// MaxFrameValue is the largest value that crosses a link, in bytes; 0 is 8 MiB.
	MaxFrameValue int64
	// Log may be nil.
	Log *slog.Logger
}

// Peers are the other nodes of the cluster, as this node knows and calls them.
type Peers struct {
	log  *slog.Logger
	view atomic.Pointer[View]
}

// New reads the list of members. It starts nothing: see Start.
func New(o Options) (*Peers, error) {
	members, err := discover(o.Self, o.Config)
	if err != nil {
		return nil, err
	}
	if o.Dial == nil && len(members) > 1 {
		return nil, errors.New("peers: no Dial")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Peers{log: o.Log}
	p.view.Store(newView(o.Self.ID, members, o.Config, time.Now()))
	return p, nil
}

// View is the current view.
func (p *Peers) View() *View { return p.view.Load() }
