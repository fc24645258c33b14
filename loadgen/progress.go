package loadgen

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how a run goes on: not at all, in lines, or as a bar. An error
// of the writer must not end a run, so it is ignored.
type progress struct {
	out    io.Writer
	bar    *progressbar.ProgressBar
	total  int64 // requests, or milliseconds if byTime
	byTime bool

	done   int64
	errors int64
}

func newProgress(cfg *Config) *progress {
	p := &progress{out: cfg.Progress}
	if p.out == nil {
		p.out = io.Discard
		return p
	}
	switch {
	case cfg.Count > 0:
		p.total = cfg.Count
	case cfg.Duration > 0:
		p.total, p.byTime = cfg.Duration.Milliseconds(), true
	default:
		p.total = -1
	}
	if cfg.Terminal {
		p.bar = progressbar.NewOptions64(p.total,
			progressbar.OptionSetWriter(p.out), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(50*time.Millisecond))
	}
	return p
}

func (p *progress) point(pt Point) {
	p.done += pt.requests
	p.errors += pt.Errors
	line := fmt.Sprintf("%.0f req/s, p50 %s ms, p99 %s ms, %d errors", pt.RPS, round(pt.P50), round(pt.P99), p.errors)
	if p.bar == nil {
		fmt.Fprintf(p.out, "%5.1f s: %s\n", pt.Seconds, line)
		return
	}
	p.bar.Describe(line)
	at := p.done
	if p.byTime {
		at = int64(pt.Seconds * 1000)
	}
	if p.total > 0 {
		at = min(at, p.total)
	}
	if err := p.bar.Set64(at); err != nil {
		p.bar = nil // lines from now on
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.bar == nil {
		return
	}
	if err := p.bar.Finish(); err != nil {
		fmt.Fprintln(p.out)
	}
}

// round writes milliseconds with three significant digits.
func round(ms float64) string {
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.2f", math.Max(ms, 0))
	}
}
