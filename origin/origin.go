package origin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"kring/balance"
	"kring/cache"
)

// Options are the parts of an Origin.
type Options struct {
	Pool   *balance.Pool
	Config Config
	// Dial connects to endpoints; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Lookup finds the addresses of an endpoint's name; each connection takes a
	// random one. nil: Dial gets the name, or, if Dial is nil too, the system's
	// resolver is used.
	Lookup func(ctx context.Context, host string) ([]string, error)
	Log    *slog.Logger
	// Node and Version name this node and the program's version. They make the
	// User-Agent "kring/VERSION (NODE)". Both may be empty.
	Node    string
	Version string
}

// Origin loads through one pool.
type Origin struct {
	pool    *balance.Pool
	client  *client
	header  header
	maxBody int64
	slots   chan struct{} // one for each load in flight
	budget  *budget
	failed  *failures
}

// New makes an origin, and starts the probes of its pool, which the pool's
// Close ends. Errors name the field and the value.
func New(o Options) (*Origin, error) {
	if o.Pool == nil {
		return nil, errors.New("origin without a pool")
	}
	cfg := &o.Config
	if err := cfg.Validate(o.Pool.Name()); err != nil {
		return nil, err
	}
	agent := "kring"
	if o.Version != "" {
		agent += "/" + o.Version
	}
	if o.Node != "" {
		agent += " (" + o.Node + ")"
	}
	head, err := cfg.readHeader(o.Pool.Name(), agent)
	if err != nil {
		return nil, err
	}
	secure, err := cfg.readCA(o.Pool.Name())
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
		if o.Lookup == nil {
			o.Lookup = net.DefaultResolver.LookupHost
		}
	}
	dial := dialFunc(o.Dial)
	if o.Lookup != nil {
		dial = spread(o.Lookup, dial)
	}
	origin := &Origin{
		pool: o.Pool, header: head, maxBody: cfg.MaxBodyBytes, failed: newFailures(o.Log, o.Pool.Name()),
		slots:  make(chan struct{}, cfg.MaxLoads),
		budget: newBudget(cfg.RetryBudget),
		client: &client{dial: dial, tls: secure, head: cfg.MaxHeaderBytes, most: cfg.MaxLoads, age: cfg.MaxConnectionAge, idle: map[string][]*conn{}},
	}
	o.Pool.StartProbes(origin.probe)
	return origin, nil
}

// Close closes idle connections. Loads in flight go on.
func (o *Origin) Close() error {
	o.client.close()
	return nil
}

// probe asks an endpoint whether it is well. Every 2xx means yes.
func (o *Origin) probe(ctx context.Context, where string) error {
	u, err := url.Parse(where)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	target := u.RequestURI()
	u.Path, u.RawPath, u.RawQuery = "", "", ""
	request, _ := o.request(u, target, nil)
	a, err := o.client.exchange(ctx, u, request, new(atomic.Int32))
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	// Probes are rare, so their connections are not kept.
	defer a.abandon()
	if a.StatusCode < 200 || a.StatusCode > 299 {
		return fmt.Errorf("probe: %s", http.StatusText(a.StatusCode))
	}
	return nil
}

// CheckPath says what is wrong with a group's path. Group accepts every path
// that passes.
func CheckPath(path string) error {
	_, err := parseTemplate(path)
	return err
}

// Group returns the loader of one group. The path is a template as in the
// configuration: "/docs/{key}", "/raw/{+key}", "/search?q={key}".
func (o *Origin) Group(path string) (*Group, error) {
	t, err := parseTemplate(path)
	if err != nil {
		return nil, err
	}
	return &Group{origin: o, path: t}, nil
}

// Group loads the keys of one group.
type Group struct {
	origin *Origin
	path   *template
}

// CheckKey refuses keys that would make a dot segment of the URL's path.
func (g *Group) CheckKey(key string) error { return g.path.check(key) }

// Load asks the origin for a key, at two endpoints at most. Its errors are
// those of package cache:
//
//   - ErrBadKey, ErrOverloaded, ErrNoEligibleEndpoint: nothing was sent;
//   - ErrOriginFailed: refused, closed, 5xx, any other status;
//   - ErrOriginBadAnswer: an answer that is not whole, too long or unasked for;
//   - ErrOriginTimeout.
//
// Failed tries are logged, at most once a minute for each reason of each
// endpoint.
func (g *Group) Load(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
	if err := g.CheckKey(l.Key.Key); err != nil {
		return cache.Loaded{}, err
	}
	return g.origin.load(ctx, g.path, l)
}
