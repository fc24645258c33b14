//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"kring/bench/rival"
)

// stampedeArea is the area in which many clients want one key at once.
const stampedeArea = "stampede"

// stampede is one row of the table.
type stampede struct {
	name    string // also in the origin's paths
	title   string
	clients int
	latency time.Duration // of the origin
	status  int           // of the origin
	rounds  int
	// control is the Cache-Control of the n-th answer of a key.
	control func(n int) string
	// expire fetches the key once and lets it expire before the clients ask.
	expire bool
	// most is how many fetches Kring may make. faster says that Kring's
	// percentile 99 must be below Varnish's median.
	most   int
	faster bool
}

func always(s string) func(int) string { return func(int) string { return s } }

func stampedes() []stampede {
	return []stampede{
		{name: "cold", title: "cold key, origin 50 ms", clients: 200, latency: 50 * time.Millisecond, status: 200, rounds: 7, control: always("max-age=3600"), most: 1, faster: true},
		{name: "slow", title: "cold key, origin 7 s", clients: 50, latency: 7 * time.Second, status: 200, rounds: 1, control: always("max-age=3600"), most: 1},
		{name: "failing", title: "origin 503 after 50 ms", clients: 50, latency: 50 * time.Millisecond, status: 503, rounds: 3, control: always(""), most: 2, faster: true},
		{name: "no-store", title: "no-store, 50 ms", clients: 50, latency: 50 * time.Millisecond, status: 200, rounds: 3, control: always("no-store"), most: 1},
		{
			name: "expired", title: "expired, stale allowed", clients: 200, latency: 50 * time.Millisecond, status: 200, rounds: 5, most: 1, expire: true,
			control: func(n int) string {
				if n == 1 {
					return "max-age=1, stale-while-revalidate=60"
				}
				return "max-age=3600"
			},
		},
	}
}

func stampedeRow(name string) *stampede {
	for _, s := range stampedes() {
		if s.name == name {
			return &s
		}
	}
	return nil
}

// outcome is a contestant's results in one row, round by round.
type outcome struct {
	fetches  []int
	p50, p99 []float64 // milliseconds
	statuses map[int]int
	late     int // answers that waited for a load, where an answer says so
}

func (o *outcome) most() (n int) {
	for _, f := range o.fetches {
		n = max(n, f)
	}
	return n
}

// table is all outcomes by row and contestant.
type table map[string]map[string]*outcome

// stampede runs all rows against all contestants in turn.
func (b *bench) stampede(ctx context.Context) (err error) {
	s := newStage(filepath.Join(b.dir, stampedeArea), -1)
	defer func() { err = errors.Join(err, s.close()) }()
	origin, err := newStampedeOrigin()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, origin.close()) }()
	contestants := []string{nginx, varnish, kring}
	var teams []*team
	for _, name := range contestants {
		t, err := b.launchForStampede(ctx, s, name, origin.addr)
		if err != nil {
			return err
		}
		teams = append(teams, t)
	}
	results := table{}
	for _, row := range stampedes() {
		results[row.name] = map[string]*outcome{}
		for round := range min(row.rounds, b.rounds) {
			for i := range teams {
				t := teams[(i+round)%len(teams)]
				if err := b.stampedeOnce(ctx, row, t, origin, round, results[row.name]); err != nil {
					return errors.Join(fmt.Errorf("stampede: %s: %s: %w", row.title, t.name, err), t.alive())
				}
			}
		}
		b.judgeStampede(row, results[row.name])
	}
	return results.write(os.Stdout, contestants)
}

// stampedeOnce runs a row once.
func (b *bench) stampedeOnce(ctx context.Context, row stampede, t *team, origin *stampedeOrigin, round int, into map[string]*outcome) error {
	key := fmt.Sprintf("%s-%d", fileName(t.name), round)
	path := rival.Prefix + row.name + "/" + key
	before := 0
	if row.expire {
		if _, err := askAtOnce(ctx, t.addrs[0], path, 1); err != nil {
			return err
		}
		// Some contestants count lifetimes in whole seconds.
		select {
		case <-time.After(2300 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		before = origin.of(row.name, key)
	}
	c, err := askAtOnce(ctx, t.addrs[0], path, row.clients)
	if err != nil {
		return err
	}
	// A background refresh may still be on its way.
	fetches := 0
	for deadline := time.Now().Add(5 * time.Second); fetches == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		fetches = origin.of(row.name, key) - before
	}
	o := into[t.name]
	if o == nil {
		o = &outcome{statuses: map[int]int{}}
		into[t.name] = o
	}
	o.fetches = append(o.fetches, fetches)
	o.p50, o.p99 = append(o.p50, c.percentile(50)), append(o.p99, c.percentile(99))
	for status, n := range c.statuses {
		o.statuses[status] += n
	}
	o.late += c.waited
	b.say("stampede · %s · round %d · %s: %d fetches, p50 %.1f ms, p99 %.1f ms, statuses %v", row.title, round+1, t.name, fetches, c.percentile(50), c.percentile(99), c.statuses)
	return nil
}

// judgeStampede compares Kring's outcome with the goals.
func (b *bench) judgeStampede(row stampede, outcomes map[string]*outcome) {
	work := "stampede: " + row.title
	mine := outcomes[kring]
	fetches := Goal{
		Work: work, Metric: "fetches", Peer: fmt.Sprintf("the %d that are allowed", row.most), Want: 1,
		Bound: fmt.Sprintf("The rounds took %v fetches.", mine.fetches),
	}
	fetches.judge(float64(mine.most()), float64(row.most))
	b.report.Goals = append(b.report.Goals, fetches)
	if row.expire {
		waited := Goal{Work: work, Metric: "clients that waited", Peer: "none", Bound: "Some of them arrived when there was nothing to serve."}
		waited.judge(float64(mine.late), 1)
		b.report.Goals = append(b.report.Goals, waited)
	}
	if row.faster {
		sooner := Goal{
			Work: work, Metric: "p99_us", Peer: "varnish's p50", Want: 1,
			Bound: "Both wait for the origin's 50 ms, so what is left is the time to wake and answer all clients on the cores that there are.",
		}
		sooner.judge(medianOf(mine.p99), medianOf(outcomes[varnish].p50))
		b.report.Goals = append(b.report.Goals, sooner)
	}
}

func (b *bench) launchForStampede(ctx context.Context, s *stage, name, origin string) (*team, error) {
	addrs, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	p, err := b.launchOne(s, name, settings{
		Number: 1, Node: nodeName(0), Listen: addrs[0], Origin: origin, Path: rival.Prefix + "{+key}",
		Bytes: memory, Megabytes: memory >> 20, ValueBytes: 1 << 20, Cores: runtime.NumCPU(), Single: true, Stampede: true,
	})
	if err != nil {
		return nil, err
	}
	t := &team{name: name, procs: []*process{p}, addrs: addrs}
	return t, p.waitFor(ctx, "http://"+addrs[0]+rival.Prefix+"cold/first")
}

// write prints the table: a row for each stampede, a column for each
// contestant.
func (t table) write(out io.Writer, contestants []string) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "\nStampede\t%s\t\n", strings.Join(contestants, "\t"))
	for _, row := range stampedes() {
		fmt.Fprintf(w, "%s, %d clients\t", row.title, row.clients)
		for _, c := range contestants {
			o := t[row.name][c]
			text := fmt.Sprintf("%d fetches, p50 %.0f ms, p99 %.0f ms", o.most(), medianOf(o.p50), medianOf(o.p99))
			if len(o.statuses) != 1 || o.statuses[200] == 0 {
				text += fmt.Sprintf(" %s", statusText(o.statuses))
			}
			fmt.Fprintf(w, "%s\t", text)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func statusText(statuses map[int]int) string {
	return strings.TrimPrefix(fmt.Sprint(statuses), "map")
}
