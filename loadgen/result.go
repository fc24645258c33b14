package loadgen

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"kring/client"
)

// Result is the result of a run. Its JSON form is that of `kring load --json`.
type Result struct {
	// Outcome is the verdict, and Findings are the reasons, the worst first.
	Outcome  Outcome  `json:"outcome"`
	Findings []string `json:"findings"`

	Requests     int64   `json:"requests"`
	Errors       int64   `json:"errors"`
	VerifyFailed int64   `json:"verify_failed"`
	RPS          float64 `json:"rps"`
	Latency      Latency `json:"latency_ms"`
	// Unwaited is the latency of the requests that waited for no load.
	Unwaited Unwaited `json:"unwaited_latency_ms"`
	// Answers counts reads by how the entry node made the answer. Behind counts
	// those of "peer" by how the other node made it.
	Answers  map[string]int64 `json:"answers"`
	Behind   map[string]int64 `json:"answers_behind_peer"`
	PerNode  map[string]int64 `json:"per_node"`
	PerOwner map[string]int64 `json:"per_owner"`
	// OriginLoads is the origin's loads during the run; nil if they were not
	// counted.
	OriginLoads *int64 `json:"origin_loads"`

	// HitRatio is the share of the reads with a value that made no load. A read
	// that waited for another's load is a hit, as it would be for a cache that
	// gets one request after the other. UnwaitedRatio is the share of those
	// that waited for no load at all. Both are nil without such reads. Missing
	// keys count for neither: NotFound counts them.
	HitRatio      *float64 `json:"hit_ratio"`
	UnwaitedRatio *float64 `json:"unwaited_ratio"`
	Gets          int64    `json:"gets"`
	Puts          int64    `json:"puts"`
	Deletes       int64    `json:"deletes"`
	// NotFound answers are no errors. Answers counts them, too.
	NotFound int64 `json:"not_found"`
	// Marked counts answers of nodes that could not promise the newest value.
	Marked   map[string]int64 `json:"marked"`
	Bytes    int64            `json:"bytes"`
	Verified int64            `json:"verified"`
	Retries  int64            `json:"retries"`
	// Unsent counts requests of an open loop that were due, but had no free
	// worker until the run's end.
	Unsent         int64            `json:"unsent"`
	ErrorsByCode   map[string]int64 `json:"errors_by_code"`
	VerifyFailures map[string]int64 `json:"verify_failures"`
	Samples        []string         `json:"error_samples"`
	Books          Books            `json:"books"`
	Setup          Setup            `json:"setup"`
	// SentLate is how long after their due time the requests of an open loop
	// were sent. It is part of their latency.
	SentLate    Latency `json:"sent_late_ms"`
	Seconds     float64 `json:"seconds"`
	Interrupted bool    `json:"interrupted"`
	Timeline    []Point `json:"timeline"`

	histogram *hdrhistogram.Histogram
	sending   time.Duration // until an interruption; 0: all of Seconds
	standIns  int64         // reads that waited for a load that is marked
}

// Setup is the settings of the run.
type Setup struct {
	Begun       time.Time `json:"begun"`
	Version     string    `json:"version"` // of the program
	Command     string    `json:"command"`
	Nodes       []string  `json:"nodes"`
	Group       string    `json:"group"`
	Keys        string    `json:"keys"`
	Loop        string    `json:"loop"` // closed or open
	Rate        float64   `json:"rate"`
	Concurrency int       `json:"concurrency"`
	Policy      string    `json:"policy"`
	Write       float64   `json:"write"`
	Delete      float64   `json:"delete"`
	Verify      bool      `json:"verify"`
	Seed        uint64    `json:"seed"`
}

// Latency is a distribution in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Unwaited is a latency and the number of its requests.
type Unwaited struct {
	Count int64 `json:"count"`
	Latency
}

func (r *run) result(counters client.Counters) *Result {
	t, latency, unwaited, late := r.recorder.total()
	res := &Result{
		Requests: t.requests, Errors: sum(t.failures), VerifyFailed: sum(t.wrong),
		RPS: perSecond(t.requests, r.took), Latency: latencyOf(latency),
		Unwaited: Unwaited{unwaited.TotalCount(), latencyOf(unwaited)},
		Answers:  map[string]int64{}, Behind: map[string]int64{}, PerNode: t.nodes, PerOwner: t.owners,
		Gets: t.operations[opGet], Puts: t.operations[opPut], Deletes: t.operations[opDelete],
		NotFound: t.missing, Marked: t.marked, Bytes: t.bytes, Verified: t.checked, Retries: counters.Retries,
		ErrorsByCode: t.failures, VerifyFailures: t.wrong, Samples: t.texts,
		Setup: Setup{
			Begun: r.begun, Version: r.cfg.Version, Command: r.cfg.Command,
			Nodes: r.cfg.Nodes, Group: r.cfg.Group, Keys: r.cfg.Keys, Loop: "closed", Rate: r.cfg.Rate,
			Concurrency: r.cfg.Concurrency, Policy: r.cfg.Policy, Write: r.cfg.Write, Delete: r.cfg.Delete,
			Verify: r.cfg.Verify, Seed: r.cfg.Seed,
		},
		SentLate: latencyOf(late), Seconds: r.took.Seconds(), Interrupted: r.stopped, Timeline: r.timeline,
		histogram: latency, sending: time.Duration(r.sending.Load()), standIns: t.standIns,
	}
	if r.cfg.pick != nil {
		res.Setup.Keys = "of its own"
	}
	// The documented figures are present even when they are 0.
	for s, name := range sourceNames {
		if n := t.entry[s]; n > 0 || s != int(fromNowhere) {
			res.Answers[name] = n
		}
		if n := t.behind[s]; n > 0 {
			res.Behind[name] = n
		}
	}
	if t.found > 0 {
		hits, unwaited := float64(t.found-t.loaded)/float64(t.found), float64(t.found-t.waited)/float64(t.found)
		res.HitRatio, res.UnwaitedRatio = &hits, &unwaited
	}
	if r.cfg.Rate > 0 && !r.stopped && r.cfg.Duration > 0 {
		due := int64(math.Ceil(r.cfg.Rate * r.cfg.Duration.Seconds()))
		if r.cfg.Count > 0 {
			due = min(due, r.cfg.Count)
		}
		res.Unsent = max(due-t.requests, 0)
	}
	if r.cfg.Rate > 0 {
		res.Setup.Loop = "open"
	}
	if res.Samples == nil {
		res.Samples = []string{}
	}
	return res
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	ms := func(percentile float64) float64 {
		return float64(min(h.ValueAtPercentile(percentile), h.Max())) / 1000
	}
	return Latency{P50: ms(50), P95: ms(95), P99: ms(99), P999: ms(99.9), Max: float64(h.Max()) / 1000}
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return math.Round(float64(n)/d.Seconds()*10) / 10
}
