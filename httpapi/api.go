package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"kring/balance"
	"kring/cache"
	"kring/cluster"
	"kring/httpserver"
	"kring/peers"
)

// Options are what New needs.
type Options struct {
	Node    string // this node's id
	Version string // of the program, for the metrics
	// ClusterName is the cluster's name.
	ClusterName string
	Cluster     *cluster.Cluster
	Peers       *peers.Peers
	Pools       []*balance.Pool
	Limits      Limits
	Auth        Auth
	// MaxValueBytes and MaxKeyBytes are the cache's limits. They bound how much of
	// a request is read. 0: the cache's defaults.
	MaxValueBytes int64
	MaxKeyBytes   int
	// Responses is the node's budget for answers on their way to clients. nil: a
	// budget of its own, as large as beside a cache of the default size.
	Responses *Responses
	// Draining says that the node is about to stop. nil: it never is.
	Draining func() bool
	Log      *slog.Logger // nil: discarded
	// LinesDropped is how many lines of the log were lost. nil: none were.
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

	cross     *http.CrossOriginProtection
	metrics   *metrics
	statuses  *statuses
	ids       *requestIDs
	values    *httpserver.Budget // bodies of PUTs
	lists     *httpserver.Budget // bodies of batches and purges: clients that may only read send batches
	responses *Responses
	reports   *Responses // answers to operators
	server    *httpserver.Server
	inFlight  atomic.Int64

	nodeValue []string // the node's id as a header's value; shared
	ages      numbered
	maxAges   numbered
}

// headerBytes bounds a request's header besides the key in its path. Each byte of
// a key may be escaped as %XX.
const headerBytes = 16 << 10

// New builds an API. It reads the token files.
func New(o Options) (*API, error) {
	if o.Cluster == nil || o.Peers == nil {
		return nil, errors.New("httpapi: no Cluster or no Peers")
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
	a.server = httpserver.New(httpserver.Config{
		MaxConnections: o.Limits.MaxConnections, ConnectionsPerAddress: o.Limits.ConnectionsPerAddress,
		RequestTimeout: o.Limits.RequestTimeout, MaxHeaderBytes: headerBytes + 3*o.MaxKeyBytes,
		Explain: a.explainUnread, Log: o.Log,
	})
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
	return a, nil
}
