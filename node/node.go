// Package node builds one node from its parts: it binds the listener, builds
// pools, cache, peers and the HTTP API in this order, serves, and stops
// everything in the reverse order.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/cluster"
	"kring/httpapi"
	"kring/membership"
	"kring/origin"
	"kring/peers"
)

// Options are what a node takes from its surroundings. The zero value means the
// real network.
type Options struct {
	// Log is the node's log; nil: no log.
	Log *slog.Logger
	// LinesDropped is the number of lost log lines, for the metrics; nil: no
	// such metric value.
	LinesDropped func() uint64
	// Version is the program's version, for people and for origins.
	Version string
	// Listen and Dial replace those of package net. A node binds and connects
	// only with them.
	Listen func(network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	// Lookup finds the addresses of an origin's name. nil: Dial gets the name,
	// or the system's resolver is used if Dial is nil, too.
	Lookup func(ctx context.Context, host string) ([]string, error)
}

// ErrBind says that the node cannot listen. It wraps the reason.
var ErrBind = errors.New("cannot listen")

// Node is one node of a cluster. New makes it, and Run serves until its context
// ends.
type Node struct {
	cfg      Config
	log      *slog.Logger
	listener net.Listener
	server   *http.Server
	api      *httpapi.API
	cache    *cache.Cache
	peers    *peers.Peers
	cluster  *cluster.Cluster
	serving  atomic.Pointer[httpapi.API] // the api once Run has begun
	draining atomic.Bool
	stops    []stop
	stopOnce sync.Once
	stopErr  error
}

// stop is one step of stopping. It is pushed as soon as there is something to
// stop.
type stop struct {
	name string
	f    func(ctx context.Context) error
}

// New checks the configuration, binds the listener and builds the node. The
// node does not serve before Run. A caller that does not call Run must call
// Stop. An impossible setting, or a bad file of a setting, is a *FieldError.
func New(cfg Config, o Options) (*Node, error) {
	n, err := build(cfg, o)
	if errors.Is(err, ErrBind) {
		return nil, err // a shortage, not a mistake: the setting may be right
	}
	return n, asField(err)
}

func build(cfg Config, o Options) (_ *Node, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	cfg.Groups = slices.Clone(cfg.Groups) // groups get their CheckKey below; the caller's slice must not change
	cfg.Node.ID, err = nodeID(cfg.Node)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: o.Log.With("node", cfg.Node.ID)}
	n.limitConnections()
	cfg.Limits = n.cfg.Limits
	o.Dial = n.makingRoom(o.Dial)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Stop(context.Background()))
		}
	}()
	if n.listener, err = o.Listen("tcp", cfg.Node.Listen); err != nil {
		return nil, fmt.Errorf("node.listen: %q: %w: %w", cfg.Node.Listen, ErrBind, err)
	}
	n.push("listener", func(context.Context) error { return ignoreClosed(n.listener.Close()) })
	if cfg.Node.Advertise == "" {
		cfg.Node.Advertise = "http://" + n.listener.Addr().String()
	}

	responses := httpapi.NewResponses(cfg.Limits.Responses(cfg.Cache.MaxBytes))
	n.peers, err = peers.New(peers.Options{
		Self:          membership.Member{ID: cfg.Node.ID, URL: cfg.Node.Advertise, Weight: cfg.Cluster.Weight},
		Config:        cfg.Cluster,
		Dial:          func(ctx context.Context, addr string) (net.Conn, error) { return o.Dial(ctx, "tcp", addr) },
		MaxFrameValue: n.largestBody(),
		Room:          responses,
		Log:           n.log,
	})
	if err != nil {
		return nil, err
	}
	pools, loader, err := n.buildOrigins(cfg, o)
	if err != nil {
		return nil, err
	}
	n.cache, err = cache.New(cache.Options{
		Node: cfg.Node.ID, Config: cfg.Cache, Groups: cfg.Groups, Loader: loader,
		MaxWaiters: cfg.Limits.MaxWaiters, MaxWaitersPerKey: cfg.Limits.MaxWaitersPerKey,
		Log: n.log,
	})
	if err != nil {
		return nil, errors.Join(err, n.peers.Close())
	}
	n.cluster = cluster.New(n.cache, n.peers)
	// The cache closes after the calls of other nodes have ended.
	n.push("cache", func(context.Context) error { return n.cache.Close() })
	n.push("peers", func(context.Context) error { return n.peers.Close() })

	api, err := httpapi.New(httpapi.Options{
		Node: cfg.Node.ID, Version: o.Version, ClusterName: cfg.Cluster.Name,
		Cluster: n.cluster, Peers: n.peers, Pools: pools,
		Limits: cfg.Limits, Auth: cfg.Auth, MaxValueBytes: cfg.Cache.MaxValueBytes, MaxKeyBytes: cfg.Cache.MaxKeyBytes,
		Responses: responses, Log: n.log, LinesDropped: o.LinesDropped, Draining: n.draining.Load,
	})
	if err != nil {
		return nil, err
	}
	n.api, n.server = api, api.Server()
	n.push("server", n.shutdownServer)
	return n, nil
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
		if o.Lookup == nil {
			o.Lookup = net.DefaultResolver.LookupHost
		}
	}
	return o
}

// nodeID is the configured id, or else host name and port.
func nodeID(c Identity) (string, error) {
	if c.ID != "" {
		return c.ID, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("node.id: no id is set and this host's name is unknown: %w", err)
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", fmt.Errorf("node.listen: %q: %w", c.Listen, err)
	}
	return net.JoinHostPort(host, port), nil
}

// largestBody is the largest value that the peer link must carry.
func (n *Node) largestBody() int64 {
	largest := n.cfg.Cache.MaxValueBytes
	for _, p := range n.cfg.Pools {
		largest = max(largest, p.Origin.MaxBodyBytes)
	}
	return largest
}

// buildOrigins makes the pools, and the loaders of the groups that have one.
func (n *Node) buildOrigins(cfg Config, o Options) ([]*balance.Pool, cache.Loader, error) {
	shared, err := n.dialRedis(cfg, o)
	if err != nil {
		return nil, nil, err
	}
	var pools []*balance.Pool
	origins := map[string]*origin.Origin{}
	for _, pc := range cfg.Pools {
		pool, err := balance.Open(pc.Config, balance.Options{Redis: shared, AllowedHosts: cfg.Auth.AllowedOriginHosts, Log: n.log})
		if err != nil {
			return nil, nil, err
		}
		og, err := origin.New(origin.Options{Pool: pool, Config: pc.Origin, Dial: o.Dial, Lookup: o.Lookup, Log: n.log, Node: cfg.Node.ID, Version: o.Version})
		if err != nil {
			return nil, nil, err
		}
		n.push("origin "+pc.Name, func(context.Context) error { return og.Close() })
		n.push("pool "+pc.Name, func(context.Context) error { pool.Close(); return nil })
		if len(cfg.Cluster.Peers) > 1 {
			// Nodes that start together must not all begin at the first
			// endpoint.
			if err := pool.Rotate(context.Background(), rand.IntN(64)); err != nil && !errors.Is(err, balance.ErrNoEligible) {
				return nil, nil, err
			}
		}
		pools, origins[pc.Name] = append(pools, pool), og
	}
	loaders := map[string]cache.Loader{}
	for i := range cfg.Groups {
		g := &cfg.Groups[i]
		if g.Origin.Pool == "" {
			continue
		}
		group, err := origins[g.Origin.Pool].Group(g.Origin.Path)
		if err != nil {
			return nil, nil, fmt.Errorf("groups[%s].origin.path: %w", g.Name, err)
		}
		loaders[g.Name], g.CheckKey = group, group.CheckKey
	}
	return pools, cache.LoaderFunc(func(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
		return loaders[l.Key.Group].Load(ctx, l)
	}), nil
}

// dialRedis makes the client of the pools that share their state, or nil.
func (n *Node) dialRedis(cfg Config, o Options) (*balance.Redis, error) {
	if !cfg.sharesState() {
		return nil, nil
	}
	r, err := balance.DialRedis(cfg.Redis, o.Dial)
	if err != nil {
		return nil, err
	}
	n.push("redis", func(context.Context) error { return r.Close() })
	return r, nil
}

func (n *Node) push(name string, f func(context.Context) error) {
	n.stops = append(n.stops, stop{name, f})
}

// Addr is the address of the listener.
func (n *Node) Addr() net.Addr { return n.listener.Addr() }

// Config is the configuration of the running node.
func (n *Node) Config() Config { return n.cfg }

// Reloaded counts a reload of the configuration, accepted or not.
func (n *Node) Reloaded(ok bool) { n.api.Reloaded(ok) }

// Peers is the node's view of its cluster.
func (n *Node) Peers() *peers.Peers { return n.peers }

// Cluster carries out requests in the cluster, as a client of this node has them.
func (n *Node) Cluster() *cluster.Cluster { return n.cluster }

// lameDuck is how long a stopping node goes on serving while it reports that it
// is not ready, so that load balancers can notice; a quarter of the drain
// time-out if that is less. Each answer meanwhile ends its connection.
const lameDuck = 500 * time.Millisecond

// Run serves until the context ends or the server fails, then stops the node
// within the drain time-out. It returns nil after the end of its context.
func (n *Node) Run(ctx context.Context) error {
	n.peers.Start(n.cluster)
	n.serving.Store(n.api)
	serveErr := make(chan error, 1)
	go func() { serveErr <- n.server.Serve(n.api.Listener(n.listener)) }()
	var err error
	ended := false
	select {
	case <-ctx.Done():
	case err = <-serveErr:
		ended = true
	}
	n.draining.Store(true)
	n.log.Info("draining")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.Handoff.DrainTimeout)
	defer cancel()
	if !ended {
		select {
		case <-time.After(min(lameDuck, n.cfg.Handoff.DrainTimeout/4)):
		case err = <-serveErr:
			ended = true
		}
	}
	err = errors.Join(err, n.Stop(drain))
	if !ended {
		if e := <-serveErr; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Stop ends everything that New and Run have started, in reverse order. Its
// context bounds the wait for requests in flight. A second call does nothing.
func (n *Node) Stop(ctx context.Context) error {
	n.stopOnce.Do(func() {
		n.draining.Store(true)
		var errs []error
		for i := len(n.stops) - 1; i >= 0; i-- {
			if err := n.stops[i].f(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", n.stops[i].name, err))
			}
		}
		n.stopErr = errors.Join(errs...)
	})
	return n.stopErr
}

// shutdownServer lets requests end until the context does, and then cuts them
// off.
func (n *Node) shutdownServer(ctx context.Context) error {
	err := n.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		n.log.Warn("requests were cut off at the end of the drain time-out")
		return n.server.Close()
	}
	return ignoreClosed(err)
}

// ignoreClosed turns the error of a second close into nil.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
