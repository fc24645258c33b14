package loadgen

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"io"
	"math"
)

//go:embed report.css
var reportStyle string

// WriteHTML writes the result as a page that needs nothing else: its plots are
// SVG inside it. It goes without html/template, whose use alone keeps the
// linker from dropping unused methods: 7 MB of the program.
func (r *Result) WriteHTML(out io.Writer) error {
	verdict, class := "all was well", "good"
	if r.Err() != nil {
		verdict, class = "something was wrong", "wrong"
	}
	var p page
	p.add(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>kring load: %s</title>
<style>
`, verdict)
	p.WriteString(reportStyle)
	p.add(`</style>
</head>
<body>
<h1>kring load: <span class="%s">%s</span></h1>
<table>
`, class, verdict)
	for _, row := range r.rows() {
		p.add("<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n", row.Name, row.Value)
	}
	p.WriteString("</table>\n")
	for _, pl := range []*plot{r.percentilePlot(), r.ratePlot(), r.latencyPlot()} {
		p.plot(pl)
	}
	p.WriteString("</body>\n</html>\n")
	if _, err := out.Write(p.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// page is HTML that grows.
type page struct{ bytes.Buffer }

// add appends text in which the strings among the arguments are escaped.
func (p *page) add(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = html.EscapeString(s)
		}
	}
	fmt.Fprintf(p, format, args...)
}

func (p *page) plot(pl *plot) {
	p.add("<h2>%s</h2>\n", pl.Title)
	if len(pl.Lines) == 0 {
		p.WriteString("<p>nothing to show</p>\n")
		return
	}
	p.WriteString("<div>")
	for _, l := range pl.Lines {
		p.add(`<span class="key"><svg viewBox="0 0 22 10"><polyline class="%s" points="0,5 22,5"/></svg> %s</span>`, l.Class, l.Name)
	}
	p.add("</div>\n<svg viewBox=\"0 0 740 270\" role=\"img\" aria-label=\"%s\">\n", pl.Title)
	for _, t := range pl.YTicks {
		p.add(`<line class="grid" x1="60" x2="720" y1="%.1f" y2="%.1[1]f"/>`+"\n", t.At)
		p.add(`<text x="54" y="%.1f" dy="4" text-anchor="end">%s</text>`+"\n", t.At, t.Label)
	}
	for _, t := range pl.XTicks {
		p.add(`<line class="grid" x1="%.1f" x2="%.1[1]f" y1="12" y2="232"/>`+"\n", t.At)
		p.add(`<text x="%.1f" y="247" text-anchor="middle">%s</text>`+"\n", t.At, t.Label)
	}
	p.add(`<text x="720" y="264" text-anchor="end">%s</text><text x="4" y="20">%s</text>`+"\n", pl.XName, pl.YName)
	for _, l := range pl.Lines {
		p.add(`<polyline class="%s" points="%s"/>`+"\n", l.Class, l.Points)
	}
	p.WriteString("</svg>\n")
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
