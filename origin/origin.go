package origin

import (
	"context"
	"log/slog"
	"net"

	"kring/balance"
	"kring/cache"
)

// Options is what an Origin is made of.
type Options struct {
	Pool   *balance.Pool
	Config Config
	// Dial connects to endpoints; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Log  *slog.Logger
	// Node is this node's id, Version the program's; both are told to origins.
	Node    string
	Version string
}

// Origin loads through one pool.
type Origin struct {
	pool *balance.Pool
	log  *slog.Logger
}

// New makes an origin and starts the probes of its pool, if it has any. Close
// the pool first, then the origin.
func New(o Options) (*Origin, error) {
	return &Origin{pool: o.Pool, log: o.Log}, nil
}

// Close closes idle connections. Loads that are under way end as they do.
func (o *Origin) Close() error { return nil }

// Group is a cache.Loader of the keys of one group. The path is a template as
// in the configuration: "/docs/{key}".
func (o *Origin) Group(path string) (*Group, error) { return &Group{origin: o}, nil }

// Group loads the keys of one group.
type Group struct {
	origin *Origin
}

// CheckKey refuses keys that cannot be asked for: those that would make a dot
// segment of the URL's path.
func (g *Group) CheckKey(key string) error { return nil }

// Load asks the origin for a key.
func (g *Group) Load(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
	return cache.Loaded{}, cache.ErrOriginFailed.With("no endpoint was asked")
}
