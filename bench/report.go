//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
)

// oneCore is the suffix of a work in which servers and loader share one core.
// CPU figures, and so their ratios, are steady there.
const oneCore = ", one core"

// Report is the report; -json writes it.
type Report struct {
	Results []Row  `json:"results"`
	Goals   []Goal `json:"goals"`
}

// Row is the medians of one contestant in one work. RPS is keys a second, CPU
// is per key over all servers, and latencies are those of requests.
type Row struct {
	Work       string  `json:"work"`
	Contestant string  `json:"contestant"`
	RPS        float64 `json:"rps"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	CPU        float64 `json:"cpu_us"`
	Rounds     int     `json:"rounds"`
}

// Goal is a goal of Kring relative to a peer. Ratio is Kring's figure divided
// by the peer's. It must be at least Want for the metric rps, and at most Want
// for the others.
type Goal struct {
	Work   string  `json:"work"`
	Metric string  `json:"metric"`
	Peer   string  `json:"peer"`
	Want   float64 `json:"want"`
	Ratio  float64 `json:"ratio"`
	Met    bool    `json:"met"`
	// Bound is a sentence about what limits a missed goal.
	Bound string `json:"bound"`
}

// judge sets Ratio and Met, and drops Bound if the goal is met.
func (g *Goal) judge(kring, peer float64) {
	g.Ratio = math.Round(kring/peer*1000) / 1000
	if g.Metric == "rps" {
		g.Met = g.Ratio >= g.Want
	} else {
		g.Met = g.Ratio <= g.Want
	}
	if g.Met {
		g.Bound = ""
	}
}

// row finds a contestant's figures, or nil.
func (r *Report) row(work, contestant string) *Row {
	for i := range r.Results {
		if r.Results[i].Work == work && r.Results[i].Contestant == contestant {
			return &r.Results[i]
		}
	}
	return nil
}

// addGoals judges the goals of all measured works.
func (r *Report) addGoals() {
	for _, g := range goals() {
		mine, peer := r.row(g.Work, kring), r.row(g.Work, g.Peer)
		if mine == nil || peer == nil {
			continue
		}
		g.judge(mine.metric(g.Metric), peer.metric(g.Metric))
		r.Goals = append(r.Goals, g)
	}
}

func (r *Row) metric(name string) float64 {
	switch name {
	case "rps":
		return r.RPS
	case "p50_us":
		return r.P50
	case "p99_us":
		return r.P99
	}
	return r.CPU
}

// writeJSON writes the report to a file. Empty lists are written as [].
func (r *Report) writeJSON(name string) error {
	full := Report{Results: append([]Row{}, r.Results...), Goals: append([]Goal{}, r.Goals...)}
	text, err := json.MarshalIndent(full, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

// latency writes microseconds for people, below ten with the nanoseconds.
func latency(us float64) string {
	if us < 10 {
		return fmt.Sprintf("%.3f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// writeTable prints the report for people.
func (r *Report) writeTable(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	work := ""
	for _, row := range r.Results {
		if row.Work != work {
			work = row.Work
			fmt.Fprintf(t, "\n%s\t\t\t\t\tkring ÷ it\t\t\n", strings.ToUpper(work[:1])+work[1:])
			fmt.Fprintf(t, "contestant\treq/s\tp50 µs\tp99 µs\tCPU µs\treq/s\tCPU\t\n")
		}
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%.2f\t", row.Contestant, row.RPS, latency(row.P50), latency(row.P99), row.CPU)
		if mine := r.row(work, kring); mine != nil {
			fmt.Fprintf(t, "%.2f\t%.2f\t", mine.RPS/row.RPS, mine.CPU/row.CPU)
		} else {
			fmt.Fprint(t, "\t\t")
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Goals) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nGoals")
	for _, g := range r.Goals {
		verdict, relation := "met", "≤"
		if !g.Met {
			verdict = "NOT MET"
		}
		if g.Metric == "rps" {
			relation = "≥"
		}
		if _, err := fmt.Fprintf(out, "  %-7s  %s: %s beside %s is %.3f, wanted %s %.3f\n", verdict, g.Work, g.Metric, g.Peer, g.Ratio, relation, g.Want); err != nil {
			return err
		}
		if g.Bound != "" {
			if _, err := fmt.Fprintf(out, "           %s\n", g.Bound); err != nil {
				return err
			}
		}
	}
	return nil
}
