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

// Config says which cluster a Client speaks to, and how. A zero field means its
// default.
type Config struct {
	// Nodes are the URLs of the entry nodes, at least one:
	// "http://127.0.0.1:8001". A path in the URL is put in front of Kring's
	// routes.
	Nodes []string
	// Policy chooses the entry node. All nodes have the same weight, so
	// weighted and smooth_weighted are round_robin. The others are
	// least_assigned and least_in_flight, which asks slow nodes less. Default:
	// smooth_weighted.
	Policy string
	// Token is sent as a bearer token. Default: empty, no token.
	Token string
	// Timeout bounds a whole call with all its tries. Default: 30 s.
	Timeout time.Duration
	// PerTryTimeout bounds each try of a read, except the last one, which may
	// take the rest of Timeout. It causes no second load when only the origin
	// is slow: the second try waits for the load of the first. Default: 2 s.
	PerTryTimeout time.Duration
	// SilenceTimeout ends such a try earlier if its node answers no call at all
	// for so long: the node hangs or is gone. A write waits on, but the silence
	// counts against the node, so that other calls go elsewhere. Default: 500
	// ms.
	SilenceTimeout time.Duration
	// MaxTries is how many nodes are asked at most. When no node answers a
	// read, a node that was given up for its silence also gets the rest of
	// Timeout. Default: every node once.
	MaxTries int
	// MaxIdleConns is how many idle connections are kept to each node. It
	// should be the number of concurrent calls. Default: 64.
	MaxIdleConns int
	// MaxConnAge is how long connections are used, less up to a fifth. Then the
	// client makes new ones and looks the nodes' names up again. A connection
	// that is always in use would lead to the old address for ever. Default: 5
	// min.
	MaxConnAge time.Duration
	// MaxAnswerBytes bounds an answer's body in bytes. Default: 64 MiB.
	MaxAnswerBytes int64
	// BatchKeys is how many keys go into one batch request. A longer batch
	// becomes several requests. It must not be above the nodes'
	// limits.batch_keys. Default: 1000.
	BatchKeys int
	// TLS is for nodes with https URLs. Default: nil, the system's roots.
	TLS *tls.Config
	// Dial makes connections. Default: nil, a net.Dialer with a time-out of 1
	// s.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log gets the lines of the pool of nodes. Default: nil, they are dropped.
	Log *slog.Logger
}

const userAgent = "kring-client/1"

// Client calls the nodes of a cluster.
type Client struct {
	cfg         Config
	nodes       []*node
	pool        *balance.Pool
	connections connections
	questions   questions
	// header is in every request. It is shared and never written.
	header http.Header
	// start is the time base: a monotonic time since start fits an atomic.
	start time.Time

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
	// client's start.
	heard atomic.Int64

	mu     sync.Mutex // guards asking
	asking *question  // in flight; nil: none
}

// url is the base of the node's routes.
func (n *node) url() string { return n.scheme + "://" + n.host + n.prefix }

// Counters are a Client's counters since New.
type Counters struct {
	Calls   int64 // a batch counts once for each of its requests
	Retries int64 // tries beyond each call's first
}

// firstTurn is the turn that a client begins with. Tests need a known one.
var firstTurn = func() int { return rand.IntN(64) }

// New makes a client. It contacts no node. Its first call goes to a random
// node: else clients that start together would all begin at the same one.
// Errors name what is wrong.
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

	c := &Client{cfg: cfg, start: time.Now(), header: http.Header{"User-Agent": {userAgent}}}
	if cfg.Token != "" {
		c.header["Authorization"] = []string{"Bearer " + cfg.Token}
	}
	pool := balance.DefaultConfig()
	pool.Name, pool.Policy = "nodes", cfg.Policy
	// An entry node that is still out costs only one retry, so a trial may come
	// soon.
	pool.Health.FailTimeout = time.Second
	// Probes, not calls, find out whether a node is back: a write would wait
	// for a hung node to its end.
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
		// This is shorter than a node's own time-out. If the node closed first,
		// a write on the connection could be lost without notice.
		IdleConnTimeout:     60 * time.Second,
		TLSHandshakeTimeout: 2 * time.Second,
		// A value's Content-Encoding belongs to the value.
		DisableCompression: true,
		// HTTP/2 is off: many calls would share one connection.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	c.questions.ctx, c.questions.end = context.WithCancel(context.Background())
	c.pool.StartProbes(c.probe)
	return c, nil
}

// Close ends the probes of failing nodes, and closes idle connections. Calls in
// flight go on.
func (c *Client) Close() {
	c.questions.close()
	c.pool.Close()
	c.connections.close()
}

// Counters copies out the counters.
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
