package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Point is one stretch of the timeline.
type Point struct {
	Seconds float64 `json:"seconds"` // its end, since the start of the run
	RPS     float64 `json:"rps"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	Errors  int64   `json:"errors"`

	requests int64
}

// timeline is the course of a run, second by second.
type timeline struct {
	begun  time.Time
	points []Point

	// The stretch of the last point, which may still grow.
	from, to time.Time
	latency  *hdrhistogram.Histogram
	errors   int64
}

// shortest is the least length of a stretch: a rate over less is chance.
const shortest = 500 * time.Millisecond

// add ends a stretch.
func (t *timeline) add(now time.Time, h *hdrhistogram.Histogram, errors int64) Point {
	t.from = t.to
	if t.latency == nil {
		t.from = t.begun
	}
	t.to, t.latency, t.errors = now, h, errors
	t.points = append(t.points, t.point())
	return t.points[len(t.points)-1]
}

// finish adds the rest. If it is too short for a stretch of its own, it extends
// the last one.
func (t *timeline) finish(now time.Time, h *hdrhistogram.Histogram, errors int64) {
	if t.latency == nil || now.Sub(t.to) >= shortest {
		t.add(now, h, errors)
		return
	}
	if h.TotalCount() == 0 {
		return
	}
	t.latency.Merge(h)
	t.errors += errors
	if now.After(t.to) {
		t.to = now
	}
	t.points[len(t.points)-1] = t.point()
}

func (t *timeline) point() Point {
	l := latencyOf(t.latency)
	return Point{
		Seconds: t.to.Sub(t.begun).Seconds(), RPS: perSecond(t.latency.TotalCount(), t.to.Sub(t.from)),
		P50: l.P50, P99: l.P99, Max: l.Max, Errors: t.errors, requests: t.latency.TotalCount(),
	}
}
