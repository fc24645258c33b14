package loadgen

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText writes the result for people.
func (r *Result) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range append(r.rows(), row{"verdict", r.verdict()}) {
		if _, err := fmt.Fprintf(w, "%s\t%s\n", row.Name, row.Value); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// row is one line of a result, in the text and in the table of the HTML report.
type row struct{ Name, Value string }

func (r *Result) rows() []row {
	var rows []row
	add := func(name, format string, args ...any) { rows = append(rows, row{name, fmt.Sprintf(format, args...)}) }
	loop := fmt.Sprintf("closed loop, %d at a time", r.Setup.Concurrency)
	if r.Setup.Rate > 0 {
		loop = fmt.Sprintf("open loop, %g a second, at most %d at a time", r.Setup.Rate, r.Setup.Concurrency)
	}
	add("load", "%s, keys %s of group %s, through %d nodes", loop, r.Setup.Keys, r.Setup.Group, len(r.Setup.Nodes))
	cut := ""
	if r.Interrupted {
		cut = ", interrupted"
	}
	add("requests", "%d in %.1f s%s (%d gets, %d puts, %d deletes)", r.Requests, r.Seconds, cut, r.Gets, r.Puts, r.Deletes)
	add("rate", "%.0f req/s, %.1f MB/s", r.RPS, mega(r.Bytes, r.Seconds))
	add("latency ms", "%s", r.Latency.text())
	if r.Setup.Rate > 0 {
		add("sent late ms", "%s", r.SentLate.text())
		if r.Unsent > 0 {
			add("unsent", "%d requests were due, but all workers were waiting", r.Unsent)
		}
	}
	add("answers", "%s", counts(r.Answers))
	if len(r.Behind) > 0 {
		add("behind peer", "%s", counts(r.Behind))
	}
	if r.HitRatio != nil {
		add("hit ratio", "%.2f %% of the values made no load, %.2f %% waited for no load", 100**r.HitRatio, 100**r.UnwaitedRatio)
	}
	if r.NotFound > 0 {
		add("not found", "%d of %d reads, not in the hit ratio", r.NotFound, r.Gets)
	}
	if len(r.Marked) > 0 {
		add("marked", "%s", counts(r.Marked))
	}
	add("per node", "%s", counts(r.PerNode))
	add("per owner", "%s", counts(r.PerOwner))
	if r.OriginLoads != nil {
		add("origin loads", "%d", *r.OriginLoads)
	}
	if r.Retries > 0 {
		add("retries", "%d", r.Retries)
	}
	add("errors", "%s", totalOf(r.Errors, r.ErrorsByCode))
	if r.Setup.Verify {
		add("verified", "%d bodies, %s wrong", r.Verified, totalOf(r.VerifyFailed, r.VerifyFailures))
	}
	for _, s := range r.Samples {
		add("  e.g.", "%s", s)
	}
	for _, s := range r.Books.rows() {
		add("books", "%s", s)
	}
	return rows
}

func (l Latency) text() string {
	return fmt.Sprintf("p50 %s  p95 %s  p99 %s  p99.9 %s  max %s", round(l.P50), round(l.P95), round(l.P99), round(l.P999), round(l.Max))
}

func totalOf(total int64, classes map[string]int64) string {
	if total == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", total, counts(classes))
}

// counts lists the counters that are not 0, the greatest first.
func counts(m map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if m[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func mega(bytes int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) / 1e6 / seconds
}
