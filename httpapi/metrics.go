package httpapi

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kring/cache"
)

// metrics are the metrics of one node, in a registry of its own.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	unread   *prometheus.CounterVec
	reloads  *prometheus.CounterVec
}

func newMetrics(a *API, version string, linesDropped func() uint64) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	auto := promauto.With(m.registry)
	m.requests = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "kring_http_requests_total", Help: "Requests answered, by route, method and status.",
	}, []string{"route", "method", "status"})
	m.duration = auto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kring_http_request_duration_seconds", Help: "Time from a request's header to the end of its answer.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"route", "method"})
	m.unread = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "kring_http_unread_requests_total", Help: "Connections turned away before a request could be read, by status.",
	}, []string{"status"})
	m.reloads = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "kring_config_reloads_total", Help: "Readings of the configuration while running, by result.",
	}, []string{"result"})
	for _, result := range []string{reloadAccepted, reloadRefused} {
		m.reloads.WithLabelValues(result) // so that it is shown from the start, as 0
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{a: a, version: version, linesDropped: linesDropped},
	)
	return m
}

// The results of a reading of the configuration.
const (
	reloadAccepted = "accepted"
	reloadRefused  = "refused"
)

// Reloaded counts a reading of the configuration in the running process.
func (a *API) Reloaded(ok bool) {
	result := reloadRefused
	if ok {
		result = reloadAccepted
	}
	a.metrics.reloads.WithLabelValues(result).Inc()
}

// routeMetrics are the metrics of one route. They are looked up once, and not at
// each request.
type routeMetrics struct {
	method   string
	path     string
	duration prometheus.Observer
	requests *prometheus.CounterVec
	byStatus [600]atomic.Pointer[prometheus.Counter]
}

// route takes the path from the routing table, so that a label never holds a key
// and has no more values than there are routes.
func (m *metrics) route(method, path string) *routeMetrics {
	if method == "" {
		method = "other"
	}
	return &routeMetrics{
		method: method, path: path, requests: m.requests,
		duration: m.duration.WithLabelValues(path, method),
	}
}

func (m *routeMetrics) observe(status int, took time.Duration) {
	m.duration.Observe(took.Seconds())
	if status < 0 || status >= len(m.byStatus) {
		status = 0
	}
	counter := m.byStatus[status].Load()
	if counter == nil {
		made := m.requests.WithLabelValues(m.path, m.method, strconv.Itoa(status))
		counter = &made
		m.byStatus[status].Store(counter)
	}
	(*counter).Inc()
}

func (a *API) exposeMetrics(c *gin.Context, _ cache.Key) error {
	room := a.reports.Answer(c.Request)
	defer room.Release()
	if err := room.Take(c.Request.Context(), metricsBytes); err != nil {
		return err
	}
	promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError,
	}).ServeHTTP(c.Writer, c.Request)
	return nil
}
