package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"kring/balance"
)

// Config says which cluster a Client speaks to, and how. Zero values mean the
// defaults.
type Config struct {
	// Nodes are the URLs of the entry nodes, at least one:
	// "http://127.0.0.1:8001". A path in front of Kring's own is kept.
	Nodes []string
	// Policy chooses the entry node, all of which weigh the same: round_robin
	// (weighted and smooth_weighted are alike then), least_assigned, or
	// least_in_flight, which asks slow nodes less. Default: smooth_weighted.
	Policy string
	// Token is sent as a bearer token; empty sends none.
	Token string
	// Timeout bounds a whole call, its tries included. Default: 30 s.
	Timeout time.Duration
	// PerTryTimeout bounds each try of a read that another node may follow;
	// the last one may take what is left of Timeout. It costs no second load
	// when an origin is merely slow: the second try waits for the first one's.
	// Default: 2 s.
	PerTryTimeout time.Duration
	// SilenceTimeout ends such a try earlier if its node has answered nothing at
	// all for so long, neither this call nor another: it hangs, or is gone
	// without a word. A write waits on, but counts against the node then, so that
	// others go elsewhere. Default: 500 ms.
	SilenceTimeout time.Duration
	// MaxTries is how many nodes are asked at most. Default: every node once.
	// When none of them answers a read, one that was given up for its silence
	// gets what is left of Timeout besides.
	MaxTries int
	// MaxIdleConns is how many idle connections are kept to each node: as many
	// as calls are made at a time. Default: 64.
	MaxIdleConns int
	// MaxConnAge is how long connections are used, with up to a fifth less: then
	// new ones are made, and the names of the nodes are looked up again. A
	// connection that is always in use would lead to the old address for ever.
	// Default: 5 min.
	MaxConnAge time.Duration
	// MaxAnswerBytes bounds an answer's body. Default: 64 MiB.
	MaxAnswerBytes int64
	// BatchKeys is how many keys go into one batch request; a longer batch is
	// several requests. It must not be above the nodes' limits.batch_keys.
	// Default: 1000.
	BatchKeys int
	// TLS is for nodes with https URLs; nil uses the system's roots.
	TLS *tls.Config
	// Dial makes connections. Default: a net.Dialer with a time-out of 1 s.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log takes what the pool of nodes has to say; nil discards it.
	Log *slog.Logger
}

const userAgent = "kring-client/1"

// Client asks a cluster's nodes.
type Client struct {
	cfg         Config
	nodes       []*node
	pool        *balance.Pool
	connections connections
	questions   questions
	// header is what every request carries. It is shared, and nobody writes to it.
	header http.Header
	// epoch makes times of the monotonic clock fit an atomic.
	epoch time.Time

	calls   atomic.Int64
	retries atomic.Int64
}

// node is one entry node.
type node struct {
	name   string // in the pool
	scheme string
	host   string
	prefix string // escaped path in front of Kring's routes, without a last slash
	// heard is when the node last began to answer, in nanoseconds since the
	// client's epoch.
	heard atomic.Int64

	mu     sync.Mutex // guards asking
	asking *question  // under way; nil: none
}

// url is where the node's routes begin.
func (n *node) url() string { return n.scheme + "://" + n.host + n.prefix }

// Counters are what a Client did since it was made.
type Counters struct {
	Calls   int64 // batches count one for each request they take
	Retries int64 // tries beyond a call's first
}

// firstTurn is where a client's turns begin: tests need a known one.
var firstTurn = func() int { return rand.IntN(64) }

// New makes a client. It contacts nobody, and its first call goes to any of the
// nodes: clients that start together would all begin at the same one. Its errors
// name what is wrong.
func New(cfg Config) (*Client, error) {
	if len(cfg.Nodes) == 0 {
		return nil, errors.New("nodes: at least one URL is needed")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"timeout", int64(cfg.Timeout)},
		{"per-try timeout", int64(cfg.PerTryTimeout)},
		{"silence timeout", int64(cfg.SilenceTimeout)},
		{"max tries", int64(cfg.MaxTries)},
		{"max idle connections", int64(cfg.MaxIdleConns)},
		{"max connection age", int64(cfg.MaxConnAge)},
		{"max answer bytes", cfg.MaxAnswerBytes},
		{"batch keys", int64(cfg.BatchKeys)},
	} {
		if f.value < 0 {
			return nil, fmt.Errorf("%s: %d is negative", f.name, f.value)
		}
	}
	if !httpguts.ValidHeaderFieldValue(cfg.Token) {
		return nil, errors.New("token: it cannot be sent in a header")
	}
	orDefault(&cfg.Policy, "smooth_weighted")
	orDefault(&cfg.Timeout, 30*time.Second)
	orDefault(&cfg.PerTryTimeout, 2*time.Second)
	orDefault(&cfg.SilenceTimeout, 500*time.Millisecond)
	orDefault(&cfg.MaxTries, len(cfg.Nodes))
	orDefault(&cfg.MaxIdleConns, 64)
	orDefault(&cfg.MaxConnAge, 5*time.Minute)
	orDefault(&cfg.MaxAnswerBytes, 64<<20)
	orDefault(&cfg.BatchKeys, 1000)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}).DialContext
	}

	c := &Client{cfg: cfg, epoch: time.Now(), header: http.Header{"User-Agent": {userAgent}}}
	if cfg.Token != "" {
		c.header["Authorization"] = []string{"Bearer " + cfg.Token}
	}
	pool := balance.DefaultConfig()
	pool.Name, pool.Policy = "nodes", cfg.Policy
	// An entry node that is out costs one retry; it may as well be tried soon.
	pool.Health.FailTimeout = time.Second
	// No call finds out whether it is back: a write on a node that hangs would
	// wait to its end.
	pool.Health.Probe, pool.Health.ProbeInterval = readyPath, time.Second
	for i, raw := range cfg.Nodes {
		n, err := parseNode(raw)
		if err != nil {
			return nil, fmt.Errorf("nodes: %q: %w", raw, err)
		}
		if slices.ContainsFunc(c.nodes, func(o *node) bool {
			return o.scheme == n.scheme && o.host == n.host && o.prefix == n.prefix
		}) {
			return nil, fmt.Errorf("nodes: %q is listed twice", raw)
		}
		n.name = "node-" + strconv.Itoa(i+1)
		c.nodes = append(c.nodes, n)
		pool.Endpoints = append(pool.Endpoints, balance.EndpointConfig{Name: n.name, URL: n.url(), Weight: 1})
	}
	var err error
	if c.pool, err = balance.Open(pool, balance.Options{Log: cfg.Log, ProbeFailing: true}); err != nil {
		return nil, fmt.Errorf("choose entry nodes: %w", err)
	}
	if err := c.pool.Rotate(context.Background(), firstTurn()); err != nil {
		c.pool.Close()
		return nil, fmt.Errorf("choose entry nodes: %w", err)
	}
	c.connections.age = cfg.MaxConnAge
	c.connections.prototype = &http.Transport{
		DialContext:         cfg.Dial,
		TLSClientConfig:     cfg.TLS,
		MaxIdleConnsPerHost: cfg.MaxIdleConns,
		// Shorter than a node's: a write on a connection that the node closes
		// meanwhile would not be known to be lost.
		IdleConnTimeout:     60 * time.Second,
		TLSHandshakeTimeout: 2 * time.Second,
		// A value's Content-Encoding belongs to the value.
		DisableCompression: true,
		// HTTP/2 is never asked for: many calls would share one connection.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	c.questions.ctx, c.questions.end = context.WithCancel(context.Background())
	c.pool.StartProbes(c.probe)
	return c, nil
}

// Close ends the probes of nodes that fail, and closes idle connections. Calls
// under way go on to their end.
func (c *Client) Close() {
	c.questions.close()
	c.pool.Close()
	c.connections.close()
}

// Counters copies out what the client did so far.
func (c *Client) Counters() Counters {
	return Counters{Calls: c.calls.Load(), Retries: c.retries.Load()}
}

func parseNode(raw string) (*node, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("is not a URL (try http://127.0.0.1:8001)")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password; use a token")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must not have a query or fragment")
	}
	return &node{scheme: u.Scheme, host: u.Host, prefix: strings.TrimRight(u.EscapedPath(), "/")}, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
