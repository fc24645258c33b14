//go:build linux

// Command bench measures Kring and its peers side by side, in one run: see
// run.sh. It starts the contestants as processes on 127.0.0.1, measures them in
// turn, and ends them all.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"kring/bench/rival"
)

// bench is one run.
type bench struct {
	self, kring string // programs
	dir         string // for the servers' files
	rounds      int
	duration    time.Duration // of one measurement
	report      Report
	quiet       bool
	profiles    string // directory for Kring's CPU profiles; empty: no profiles
	atEnd       []func() error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		err = serve(ctx, os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "hitratio":
		err = hitRatio(ctx, os.Args[2:], os.Stdout)
	default:
		err = run(ctx, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// serve runs one of the contestants, or the origin.
func serve(ctx context.Context, args []string) error {
	var o rival.Options
	var peers string
	flags := pflag.NewFlagSet("bench serve", pflag.ExitOnError)
	flags.StringVar(&o.Kind, "kind", "", "one of "+strings.Join(rival.Kinds(), ", "))
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:0", "host:port")
	flags.StringVar(&peers, "peers", "", "host:port of all nodes, with commas")
	flags.StringVar(&o.Origin, "origin", "", "what comes before a key in the URL of its value")
	flags.Int64Var(&o.MaxBytes, "max-bytes", memory, "memory for values")
	flags.IntVar(&o.ValueBytes, "value-bytes", 1000, "least length of a value, for the origin")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if peers != "" {
		o.Peers = strings.Split(peers, ",")
	}
	return rival.Serve(ctx, o)
}

// run measures the chosen areas and prints the report.
func run(ctx context.Context, args []string) (err error) {
	b := &bench{}
	flags := pflag.NewFlagSet("bench", pflag.ExitOnError)
	flags.StringVar(&b.kring, "kring", "bin/kring", "the program to measure")
	flags.StringVar(&b.dir, "dir", "bench/out/run", "for the servers' configurations and logs; made anew")
	flags.IntVar(&b.rounds, "rounds", 7, "how often each contestant is measured")
	flags.DurationVar(&b.duration, "duration", time.Second, "of each measurement")
	flags.BoolVar(&b.quiet, "quiet", false, "no line for each measurement")
	flags.StringVar(&b.profiles, "profiles", "", "existing directory for CPU profiles of Kring's nodes")
	json := flags.String("json", "", "file for the results")
	traces := flags.String("traces", "../shared/traces", "directory of the traces")
	limit := flags.Duration("limit", 45*time.Minute, "the run ends after this time, whatever it has come to")
	flags.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: bench [flags] [area…]; areas: %s\n%s", strings.Join(areas(), ", "), flags.FlagUsages())
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted := flags.Args()
	if len(wanted) == 0 {
		wanted = areas()
	}
	for _, a := range wanted {
		if !slices.Contains(areas(), a) {
			return fmt.Errorf("%q: the areas are %s", a, strings.Join(areas(), ", "))
		}
	}
	if err := b.prepare(); err != nil {
		return err
	}
	if *json != "" {
		// A file that cannot be written must fail before the run.
		if err := b.report.writeJSON(*json); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	defer func() {
		for _, f := range b.atEnd {
			err = errors.Join(err, f())
		}
	}()
	for _, w := range works() {
		if slices.Contains(wanted, w.area) {
			if err := b.measure(ctx, w); err != nil {
				return err
			}
		}
	}
	b.report.addGoals()
	if slices.Contains(wanted, poolsArea) {
		if err := b.pools(ctx); err != nil {
			return fmt.Errorf("pools: %w", err)
		}
	}
	if slices.Contains(wanted, stampedeArea) {
		if err := b.stampede(ctx); err != nil {
			return err
		}
	}
	if slices.Contains(wanted, traceArea) {
		if err := b.replay(ctx, *traces); err != nil {
			return err
		}
	}
	if *json != "" {
		if err := b.report.writeJSON(*json); err != nil {
			return err
		}
	}
	return b.report.writeTable(os.Stdout)
}

// areas are the names of all areas.
func areas() []string {
	var names []string
	for _, w := range works() {
		names = append(names, w.area)
	}
	return append(names, poolsArea, stampedeArea, traceArea)
}

// prepare finds the programs and empties the directory.
func (b *bench) prepare() (err error) {
	if b.rounds < 1 || b.duration <= 0 {
		return errors.New("--rounds and --duration must be positive")
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.kring, err = filepath.Abs(b.kring); err != nil {
		return err
	}
	if _, err := os.Stat(b.kring); err != nil {
		return fmt.Errorf("--kring: %w", err)
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return err
	}
	if err := os.RemoveAll(b.dir); err != nil {
		return err
	}
	return os.MkdirAll(b.dir, 0o755)
}

func (b *bench) say(format string, args ...any) {
	if !b.quiet {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}
