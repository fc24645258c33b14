package loadgen

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
)

//go:embed report.html
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// WriteHTML writes the result as a page that needs nothing else: its plots are
// SVG inside it.
func (r *Result) WriteHTML(out io.Writer) error {
	data := struct {
		Good  bool
		Rows  []row
		Plots []*plot
	}{r.Err() == nil, r.rows(), []*plot{r.percentilePlot(), r.ratePlot(), r.latencyPlot()}}
	if err := reportTemplate.Execute(out, data); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// percentilePlot is the latency over the share of requests that were at least
// as slow, which leaves room for the slowest.
func (r *Result) percentilePlot() *plot {
	p := newPlot("Latency by percentile", "percentile", "ms")
	p.logY = true
	line := series{name: "latency"}
	total := float64(r.histogram.TotalCount())
	for nines := 0.0; total > 0; nines += 0.05 {
		share := math.Pow(10, -nines)
		if share*total < 1 {
			break
		}
		us := min(r.histogram.ValueAtPercentile(100*(1-share)), r.histogram.Max())
		line.points = append(line.points, point{nines, float64(max(us, 1)) / 1000})
	}
	if total > 0 {
		line.points = append(line.points, point{math.Log10(total), float64(max(r.histogram.Max(), 1)) / 1000})
	}
	p.add(line)
	for nines, label := range []string{"0", "90", "99", "99.9", "99.99", "99.999", "99.9999"} {
		if float64(nines) <= p.maxX {
			p.tickX(float64(nines), label)
		}
	}
	return p.draw()
}

func (r *Result) ratePlot() *plot {
	p := newPlot("Requests a second", "seconds", "")
	rate, failed := series{name: "requests"}, series{name: "errors", bad: true}
	last := 0.0
	for _, t := range r.Timeline {
		rate.points = append(rate.points, point{t.Seconds, t.RPS})
		failed.points = append(failed.points, point{t.Seconds, perPoint(float64(t.Errors), t.Seconds-last)})
		last = t.Seconds
	}
	p.add(rate, failed)
	return p.drawTime()
}

func (r *Result) latencyPlot() *plot {
	p := newPlot("Latency over time", "seconds", "ms")
	p.logY = true
	lines := []series{{name: "p50"}, {name: "p99"}, {name: "max", bad: true}}
	for _, t := range r.Timeline {
		if t.requests == 0 {
			continue // a stretch in which nothing was answered has no latency
		}
		for i, ms := range []float64{t.P50, t.P99, t.Max} {
			lines[i].points = append(lines[i].points, point{t.Seconds, math.Max(ms, 0.001)})
		}
	}
	p.add(lines...)
	return p.drawTime()
}

func perPoint(n, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return n / seconds
}
