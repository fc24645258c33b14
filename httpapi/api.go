package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"kring/balance"
	"kring/cache"
	"kring/cluster"
	"kring/peers"
)

// Options are what New needs.
type Options struct {
	Node    string // this node's id
	Version string // the program's, for the metrics
	// ClusterName is the cluster's name.
	ClusterName string
	Cluster     *cluster.Cluster
	Peers       *peers.Peers
	Pools       []*balance.Pool
	Limits      Limits
	Auth        Auth
	// MaxValueBytes and MaxKeyBytes are the cache's limits, which bound what
	// of a request is read at all. 0: the cache's defaults.
	MaxValueBytes int64
	MaxKeyBytes   int
	// Responses is the node's budget for answers on their way to readers; nil:
	// one of the size for a cache of the default size.
	Responses *Responses
	// Draining says that the node is about to stop; nil: never.
	Draining func() bool
	Log      *slog.Logger // nil: discarded
	// LinesDropped is how many lines of the log were lost; nil: none.
	LinesDropped func() uint64
}

// API answers HTTP requests.
type API struct {
	node        string
	clusterName string
	cluster     *cluster.Cluster
	peers       *peers.Peers
	pools       map[string]*balance.Pool
	order       []string // names of the pools, as configured
	limits      Limits
	auth        *authority
	maxValue    int64
	maxKey      int
	maxBatch    int64
	draining    func() bool
	log         *slog.Logger

	engine    *gin.Engine
	cross     *http.CrossOriginProtection
	metrics   *metrics
	statuses  *statuses
	ids       *requestIDs
	values    *budget // bodies of PUTs
	lists     *budget // bodies of batches and purges: their clients may not even write
	responses *Responses
	reports   *Responses // answers to operators
	conns     *connections
	inFlight  atomic.Int64

	nodeValue []string // of the headers Kring-Node and Kring-Owner; shared
	ages      numbered
	maxAges   numbered
}

// What a header is set to for every answer, shared and never written to.
var (
	nosniff        = []string{"nosniff"}
	mustRevalidate = []string{"max-age=0, must-revalidate"}
	noStore        = []string{"no-store"}
)

// New builds an API. It reads the token files.
func New(o Options) (*API, error) {
	if o.Cluster == nil || o.Peers == nil {
		return nil, errors.New("httpapi: no Cache or no Peers")
	}
	if err := o.Limits.validate(); err != nil {
		return nil, err
	}
	auth, err := newAuthority(o.Auth, o.Limits.RatePerToken)
	if err != nil {
		return nil, err
	}
	defaults := cache.DefaultConfig()
	if o.MaxValueBytes == 0 {
		o.MaxValueBytes = defaults.MaxValueBytes
	}
	if o.MaxKeyBytes == 0 {
		o.MaxKeyBytes = defaults.MaxKeyBytes
	}
	if o.Draining == nil {
		o.Draining = func() bool { return false }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &API{
		node: o.Node, clusterName: o.ClusterName, cluster: o.Cluster, peers: o.Peers, limits: o.Limits, auth: auth,
		maxValue: o.MaxValueBytes, maxKey: o.MaxKeyBytes, maxBatch: maxBatchBody(o.Limits.BatchKeys, o.MaxKeyBytes),
		draining: o.Draining, log: o.Log,
		pools: make(map[string]*balance.Pool), cross: http.NewCrossOriginProtection(),
		statuses: newStatuses(o.Node), ids: newRequestIDs(),
		nodeValue: []string{o.Node}, maxAges: numbered{prefix: "max-age="},
	}
	a.conns = newConnections(o.Limits.MaxConnections, o.Limits.ConnectionsPerAddress, a.headerLimit()+headSlop, a.explainUnread)
	a.values = newBodies(max(minValueBodies, 4*a.maxValue))
	a.lists = newBodies(max(minListBodies, 2*a.maxBatch))
	a.reports = NewResponses(reportBytes)
	if a.responses = o.Responses; a.responses == nil {
		a.responses = NewResponses(o.Limits.Responses(defaults.MaxBytes))
	}
	for _, p := range o.Pools {
		name := p.Status().Name
		if a.pools[name] != nil {
			return nil, fmt.Errorf("httpapi: two pools named %q", name)
		}
		a.pools[name] = p
		a.order = append(a.order, name)
	}
	if o.LinesDropped == nil {
		o.LinesDropped = func() uint64 { return 0 }
	}
	a.metrics = newMetrics(a, o.Version, o.LinesDropped)
	a.engine = a.newEngine()
	return a, nil
}

// scope is how much of a key a route's path holds.
type scope uint8

const (
	noKey scope = iota
	groupOnly
	groupAndKey
)

// route is one line of the routing table.
type route struct {
	method string // GET stands for GET and HEAD
	path   string
	need   role
	scope  scope
	// bounded routes count against limits.requests_in_flight. The others must
	// work most of all when there is too much going on.
	bounded bool
	handle  func(c *gin.Context, key cache.Key) error
}

func (a *API) routes() []route {
	return []route{
		{"GET", "/v1/cache/:group/*key", roleRead, groupAndKey, true, a.get},
		{"PUT", "/v1/cache/:group/*key", roleWrite, groupAndKey, true, a.put},
		{"DELETE", "/v1/cache/:group/*key", roleWrite, groupAndKey, true, a.delete},
		{"DELETE", "/v1/cache/:group", roleAdmin, groupOnly, true, a.purge},
		{"POST", "/v1/batch/:group", roleRead, groupOnly, true, a.batch},
		{"POST", "/v1/purge/:group", roleAdmin, groupOnly, true, a.purgeTags},

		{"GET", "/healthz", roleNone, noKey, false, a.alive},
		{"GET", "/livez", roleNone, noKey, false, a.alive},
		{"GET", "/readyz", roleNone, noKey, false, a.ready},
		{"GET", "/openapi.yaml", roleNone, noKey, false, a.openapi},
		{"GET", "/metrics", roleRead, noKey, false, a.exposeMetrics},
		{"GET", "/v1/cluster", roleRead, noKey, false, a.showCluster},
		{"GET", "/v1/explain/:group/*key", roleRead, groupAndKey, true, a.explain},
		{"GET", "/v1/stats", roleRead, noKey, false, a.stats},
		{"GET", "/v1/pools", roleRead, noKey, false, a.listPools},
		{"GET", "/v1/pools/:pool", roleRead, noKey, false, a.showPool},
		{"POST", "/v1/pools/:pool/assignments", roleWrite, noKey, true, a.assign},
		{"PUT", "/v1/pools/:pool/assignments/:id", roleWrite, noKey, true, a.renewAssignment},
		{"DELETE", "/v1/pools/:pool/assignments/:id", roleWrite, noKey, true, a.completeAssignment},
		{"PUT", "/v1/pools/:pool/endpoints/:name", roleAdmin, noKey, true, a.putEndpoint},
		{"DELETE", "/v1/pools/:pool/endpoints/:name", roleAdmin, noKey, true, a.removeEndpoint},
		{"GET", "/debug/pprof/*name", roleAdmin, noKey, false, a.profile},

		// Nodes prove the cluster's secret to each other; they have no token.
		{"GET", peers.LinkPath, roleNone, noKey, false, a.link},
	}
}

func (a *API) newEngine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.UseEscapedPath = true
	e.UnescapePathValues = false
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.RemoveExtraSlash = false
	e.HandleMethodNotAllowed = true
	e.ForwardedByClientIP = false
	if err := e.SetTrustedProxies(nil); err != nil { // fails only for a bad list
		panic(err)
	}
	for _, rt := range a.routes() {
		e.Handle(rt.method, rt.path, a.handler(rt))
		if rt.method == http.MethodGet && rt.path != peers.LinkPath {
			head := rt
			head.method = http.MethodHead
			e.Handle(head.method, head.path, a.handler(head))
		}
	}
	e.NoRoute(a.handler(route{path: "none", handle: func(*gin.Context, cache.Key) error {
		return errNoRoute
	}}))
	e.NoMethod(a.handler(route{path: "none", handle: func(c *gin.Context, _ cache.Key) error {
		return errNoMethod.With(c.Request.Method + " is not among " + c.Writer.Header().Get("Allow"))
	}}))
	return e
}

// Handler is the whole API.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serveHTTP) }

// serveHTTP does what must be done outside of Gin: only with the server's own
// ResponseWriter does a body over its limit close the connection.
func (a *API) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) || a.draining() {
		// What follows a chunked body may be read as a request of its own by
		// a proxy in front that counted otherwise, so nothing may follow; nor
		// what follows a request of HTTP/1.0, whose framing is a custom.
		w.Header().Set("Connection", "close")
	}
	if r.Body != nil && r.Body != http.NoBody {
		limit := a.maxValue
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/batch/"):
			limit = a.maxBatch
		case strings.HasPrefix(r.URL.Path, "/v1/purge/"):
			limit = maxPurgeBody
		}
		// A copy: the server asks its own request's body whether it was read
		// to the end, and lingers before it closes if not.
		limited := *r
		limited.Body = http.MaxBytesReader(w, r.Body, limit)
		r = &limited
	}
	a.engine.ServeHTTP(w, r)
}

// handler wraps a route in what all routes need, in one function instead of a
// chain of middleware: the chain would be a good part of a hit's cost.
func (a *API) handler(rt route) gin.HandlerFunc {
	m := a.metrics.route(rt.method, rt.path)
	prefix, _, _ := strings.Cut(rt.path, ":group")
	return func(c *gin.Context) {
		start := time.Now()
		defer a.finish(c, m, start)
		a.requestID(c)
		if err := a.serve(c, &rt, prefix); err != nil {
			a.fail(c, err)
		}
	}
}

func (a *API) serve(c *gin.Context, rt *route, prefix string) error {
	r := c.Request
	if err := checkOldFraming(r); err != nil {
		return err
	}
	if rt.bounded {
		defer a.inFlight.Add(-1)
		if n := a.inFlight.Add(1); n > int64(a.limits.RequestsInFlight) {
			return cache.ErrOverloaded.With("too many requests in flight")
		}
	}
	var key cache.Key
	var err error
	if rt.scope != noKey {
		key, err = pathKey(r.URL, prefix)
		if err != nil {
			return err
		}
	}
	if err := a.auth.allow(c, rt.need, key.Group); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if r.ContentLength != 0 {
			c.Writer.Header().Set("Connection", "close")
			return errBadRequest.With("a " + r.Method + " has no body")
		}
	default:
		// A web page of another origin must not write through its reader's
		// browser to a node on the reader's loopback.
		if err := a.cross.Check(r); err != nil {
			return errForbidden.With("cross-origin request of a browser")
		}
	}
	return rt.handle(c, key)
}

// finish records a request, and turns a panic into an answer.
func (a *API) finish(c *gin.Context, m *routeMetrics, start time.Time) {
	if v := recover(); v != nil {
		a.recovered(c, m, start, v)
		return
	}
	a.record(c, m, start)
}

func (a *API) recovered(c *gin.Context, m *routeMetrics, start time.Time, v any) {
	defer a.record(c, m, start)
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	a.fail(c, &panicError{value: v, stack: stack()})
}

func (a *API) record(c *gin.Context, m *routeMetrics, start time.Time) {
	took := time.Since(start)
	status := c.Writer.Status()
	m.observe(status, took)
	if ctx := c.Request.Context(); a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.LogAttrs(ctx, slog.LevelDebug, "request answered",
			slog.String("method", m.method), slog.String("route", m.path), slog.Int("status", status),
			slog.Int("bytes", max(0, c.Writer.Size())), slog.Duration("took", took),
			slog.String("request_id", a.requestID(c)), slog.String("remote", c.Request.RemoteAddr))
	}
}
