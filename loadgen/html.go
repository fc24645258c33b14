package loadgen

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
)

//go:embed report.css
var reportStyle string

// WriteHTML writes the result as one self-contained page; its plots are inline
// SVG. It does not use html/template, which keeps the linker from dropping
// unused methods: 7 MB of the program.
func (r *Result) WriteHTML(out io.Writer) error {
	headline := map[Outcome]string{Well: r.wellInWords(), Doubtful: "no request failed, but not all was well", Wrong: "something was wrong"}[r.Outcome]
	var p page
	p.begin("kring load", headline, r.Outcome)
	p.list(r.Findings)
	p.origin(&r.Setup)
	p.table(r.rows())
	p.plots(r)
	return p.end(out)
}

// WriteHTML writes the verdict as a page: the checks with their results, and
// each phase with its figures and plots.
func (v *Verdict) WriteHTML(out io.Writer) error {
	outcome := Wrong
	switch {
	case v.Passed && len(v.Doubts) == 0:
		outcome = Well
	case v.Passed, v.Interrupted && !errors.Is(v.Err(), ErrWrong):
		outcome = Doubtful
	}
	var p page
	p.begin("kring load --scenario "+v.Scenario, v.word(), outcome)
	p.list(v.Doubts)
	if len(v.Phases) > 0 {
		p.origin(&v.Phases[0].Result.Setup)
	}
	p.WriteString("<table>\n<tr><th scope=\"col\">what must hold</th><th scope=\"col\">must be</th><th scope=\"col\">was</th><th scope=\"col\"></th></tr>\n")
	for _, c := range v.Checks {
		class := map[string]Outcome{checkPassed: Well, checkSkipped: Doubtful, checkFailed: Wrong}[c.word()]
		p.add("<tr><td>%s</td><td>%s</td><td>%s</td><td class=\"%s\">%s</td></tr>\n", c.What, c.Want, c.Got, string(class), c.word())
	}
	p.WriteString("</table>\n")
	for _, phase := range v.Phases {
		p.add("<h2>%s</h2>\n", phase.Name)
		p.table(phase.Result.rows())
		p.plots(phase.Result)
	}
	return p.end(out)
}

// page is HTML under construction.
type page struct{ bytes.Buffer }

// add appends text. It escapes the strings among the arguments.
func (p *page) add(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = html.EscapeString(s)
		}
	}
	fmt.Fprintf(p, format, args...)
}

// begin writes the head of the page.
func (p *page) begin(what, headline string, outcome Outcome) {
	p.add(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s: %s</title>
<style>
`, what, headline)
	p.WriteString(reportStyle)
	p.add("</style>\n</head>\n<body>\n<h1>%s: <span class=\"%s\">%s</span></h1>\n", what, string(outcome), headline)
}

func (p *page) end(out io.Writer) error {
	p.WriteString("</body>\n</html>\n")
	if _, err := out.Write(p.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// origin says when the run was, and with which command and version.
func (p *page) origin(s *Setup) {
	p.add("<p>%s, kring %s</p>\n", s.Begun.Format("Monday, 2 January 2006, 15:04:05 MST"), cmp.Or(s.Version, "of an unknown version"))
	if s.Command != "" {
		p.add("<pre>%s</pre>\n", s.Command)
	}
}

func (p *page) list(items []string) {
	if len(items) == 0 {
		return
	}
	p.WriteString("<ul>\n")
	for _, item := range items {
		p.add("<li>%s</li>\n", item)
	}
	p.WriteString("</ul>\n")
}

func (p *page) table(rows []row) {
	p.WriteString("<table>\n")
	for _, row := range rows {
		p.add("<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n", row.Name, row.Value)
	}
	p.WriteString("</table>\n")
}

// plots draws a result. One request has no distribution, and a run of less than
// a second no course of time.
func (p *page) plots(r *Result) {
	if r.Requests < 2 {
		return
	}
	p.plot(r.percentilePlot())
	if len(r.Timeline) > 1 {
		p.plot(r.ratePlot())
		p.plot(r.latencyPlot())
	}
}

func (p *page) plot(pl *plot) {
	p.add("<h3>%s</h3>\n", pl.Title)
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
	p.add(`<text x="720" y="264" text-anchor="end">%s</text>`+"\n", pl.XName)
	for _, l := range pl.Lines {
		p.add(`<polyline class="%s" points="%s"/>`+"\n", l.Class, l.Points)
	}
	p.WriteString("</svg>\n")
}

// percentilePlot plots the latency over the percentiles, stretched towards the
// slowest.
func (r *Result) percentilePlot() *plot {
	p := newPlot("Latency by percentile, in ms", "percentile")
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
	p := newPlot("Requests a second", "seconds")
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
	p := newPlot("Latency over time, in ms", "seconds")
	p.logY = true
	lines := []series{{name: "p50"}, {name: "p99"}, {name: "max", bad: true}}
	for _, t := range r.Timeline {
		if t.requests == 0 {
			continue // a stretch without answers has no latency
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
