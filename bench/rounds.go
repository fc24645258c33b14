//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"kring/bench/drive"
)

// warmUp is unmeasured time before each measurement.
const warmUp = 200 * time.Millisecond

// sample is one round of one lane.
type sample struct {
	rps, p50, p99, cpu float64 // per second, and microseconds
}

// measure measures the contestants of a work, once on all cores, and once with
// the loader on one core.
func (b *bench) measure(ctx context.Context, w work) error {
	for _, pinned := range []bool{false, true} {
		cpu, name := -1, w.name
		if pinned {
			cpu, name = runtime.NumCPU()-1, w.name+oneCore
		}
		if err := b.measureOn(ctx, w, name, cpu); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (b *bench) measureOn(ctx context.Context, w work, name string, cpu int) (err error) {
	dir := filepath.Join(b.dir, fileName(name))
	s := newStage(dir, cpu)
	defer func() { err = errors.Join(err, s.close()) }()
	// The origin is not measured, so it does not run on the one core.
	open := newStage(dir, -1)
	defer func() { err = errors.Join(err, open.close()) }()
	origin, err := b.launchOrigin(ctx, open, w.valueBytes)
	if err != nil {
		return err
	}
	var lanes []lane
	for _, c := range w.contestants {
		t, err := b.launch(ctx, s, c, w.nodes, origin)
		if err != nil {
			return err
		}
		more, err := w.lanes(ctx, &w, t)
		if err != nil {
			return err
		}
		lanes = append(lanes, more...)
	}
	threads := runtime.NumCPU()
	if cpu >= 0 {
		threads = 1
	}
	for _, l := range lanes {
		if err := w.warm(ctx, l, threads, cpu); err != nil {
			return err
		}
	}
	samples := make([][]sample, len(lanes))
	for round := range b.rounds {
		for i := range lanes {
			// Each round begins at another lane, so that no lane always follows
			// the same one.
			i = (i + round) % len(lanes)
			x, err := b.round(ctx, w, lanes[i], threads, cpu, uint64(round))
			if err != nil {
				return err
			}
			samples[i] = append(samples[i], x)
			b.say("%s · round %d of %d · %s: %.0f/s, %.1f µs", name, round+1, b.rounds, lanes[i].name, x.rps, x.cpu)
		}
	}
	for i, l := range lanes {
		cfg := drive.Config{Targets: l.targets, Connections: w.connections, Threads: threads, CPU: cpu}
		if err := b.profile(ctx, l, cfg, name); err != nil {
			return err
		}
		b.report.Results = append(b.report.Results, summary(name, l.name, samples[i]))
	}
	return nil
}

// round measures one lane for one round.
func (b *bench) round(ctx context.Context, w work, l lane, threads, cpu int, seed uint64) (sample, error) {
	cfg := drive.Config{
		Targets: l.targets, Connections: w.connections, Threads: threads, CPU: cpu, Duration: warmUp, Seed: 2 * seed,
	}
	if _, err := b.drive(ctx, l, cfg); err != nil {
		return sample{}, err
	}
	before, err := cpuTime(l.team.procs)
	if err != nil {
		return sample{}, err
	}
	cfg.Duration, cfg.Seed = b.duration, 2*seed+1
	r, err := b.drive(ctx, l, cfg)
	if err != nil {
		return sample{}, err
	}
	after, err := cpuTime(l.team.procs)
	if err != nil {
		return sample{}, err
	}
	keys := float64(l.keys)
	return sample{
		rps: r.RPS() * keys, p50: micros(r.P50), p99: micros(r.P99),
		cpu: micros(after-before) / (float64(r.Requests) * keys),
	}, nil
}

// drive is drive.Run, but returns an error if any answer was wrong.
func (b *bench) drive(ctx context.Context, l lane, cfg drive.Config) (drive.Result, error) {
	r, err := drive.Run(ctx, cfg)
	switch {
	case err != nil:
		return r, err
	case ctx.Err() != nil:
		return r, ctx.Err()
	case r.Wrong > 0:
		return r, errors.Join(fmt.Errorf("%s: %d answers of %d were wrong: %w", l.name, r.Wrong, r.Wrong+r.Requests, r.Sample), l.team.alive())
	case r.Requests == 0:
		return r, fmt.Errorf("%s: no answer came", l.name)
	}
	return r, nil
}

// summary is the medians of a lane's rounds.
func summary(work, contestant string, samples []sample) Row {
	median := func(f func(s sample) float64) float64 {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = f(s)
		}
		return medianOf(values)
	}
	return Row{
		Work: work, Contestant: contestant, Rounds: len(samples),
		RPS: median(func(s sample) float64 { return s.rps }),
		P50: median(func(s sample) float64 { return s.p50 }),
		P99: median(func(s sample) float64 { return s.p99 }),
		CPU: median(func(s sample) float64 { return s.cpu }),
	}
}

func medianOf(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
