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

// metrics are those of one node: they live in a registry of its own.
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
		m.reloads.WithLabelValues(result) // there from the start, at 0
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kring_http_requests_in_flight", Help: "Requests being answered, of those that are bounded.",
	}, func() float64 { return float64(a.inFlight.Load()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kring_http_connections", Help: "Open connections of clients.",
	}, func() float64 { return float64(a.conns.count()) })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "kring_http_connections_refused_total", Help: "Connections closed unserved at a limit.",
	}, func() float64 { return float64(a.conns.refused.Load()) })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "kring_http_connections_displaced_total", Help: "Idle connections closed at a limit for new ones.",
	}, func() float64 { return float64(a.conns.displaced.Load()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kring_http_body_bytes", Help: "Memory set aside for request bodies being read.",
	}, func() float64 { return float64(a.values.inUse() + a.lists.inUse()) })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "kring_http_bodies_refused_total", Help: "Requests refused because there was no room for their bodies.",
	}, func() float64 { return float64(a.values.refused.Load() + a.lists.refused.Load()) })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "kring_http_bodies_turned_away_total", Help: "Requests ended for others because their clients sent no more of the body.",
	}, func() float64 { return float64(a.values.turnedAway.Load() + a.lists.turnedAway.Load()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kring_response_bytes", Help: "Memory of values and answers on their way to readers.",
	}, func() float64 { return float64(a.responses.inUse()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kring_response_max_bytes", Help: "The budget of values and answers on their way to readers, in bytes.",
	}, func() float64 { return float64(a.responses.max) })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "kring_response_refused_total", Help: "Requests refused because too much was on its way to readers.",
	}, func() float64 { return float64(a.responses.refused.Load() + a.reports.refused.Load()) })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "kring_response_connections_closed_total", Help: "Connections closed for others because their clients took nothing of the answer.",
	}, func() float64 { return float64(a.responses.turnedAway.Load() + a.reports.turnedAway.Load()) })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "kring_log_lines_dropped_total", Help: "Lines of the log that were lost, because nobody read them or they could not be written.",
	}, func() float64 { return float64(linesDropped()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kring_build_info", Help: "1, labelled with the version.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newBookCollector(a), newPeerCollector(a), newPoolCollector(a),
	)
	return m
}

// What a reading of the configuration came to.
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

// routeMetrics are one route's, looked up once and not at each request.
type routeMetrics struct {
	method   string
	path     string
	duration prometheus.Observer
	requests *prometheus.CounterVec
	byStatus [600]atomic.Pointer[prometheus.Counter]
}

// route takes the path as it is written in the routing table: a label never
// holds a key, and its values are as many as there are routes.
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
	room := a.reports.answering(c)
	defer room.release()
	if err := room.take(c.Request.Context(), metricsBytes); err != nil {
		return err
	}
	promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError,
	}).ServeHTTP(c.Writer, c.Request)
	return nil
}

// family describes the metrics of one name.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func (f family) send(ch chan<- prometheus.Metric, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
