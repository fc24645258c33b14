//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// traceArea is the area of the replays.
const traceArea = "trace"

// traceMemory is each node's memory: the three nodes have about a third of what
// the traces' keys need.
const traceMemory = 3 << 19

// replayTime bounds one replay.
const replayTime = 10 * time.Minute

// point is one hundredth: a hit ratio may be that much below an LRU's.
const point = 0.01

// replay sends real traces through three nodes, verifies every answer, and
// compares the hit ratio with that of one LRU of as many entries.
func (b *bench) replay(ctx context.Context, dir string) error {
	for _, name := range []string{"web07", "orm-busy"} {
		file, err := filepath.Abs(filepath.Join(dir, name+".keys.gz"))
		if err != nil {
			return err
		}
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			b.say("trace %s: %s is not there, left out", name, file)
			continue
		}
		if err := b.replayFile(ctx, "trace "+name, file); err != nil {
			return fmt.Errorf("trace %s: %w", name, err)
		}
	}
	return nil
}

// loaded is the needed part of the output of `kring load --json`.
type loaded struct {
	Requests     int64   `json:"requests"`
	Errors       int64   `json:"errors"`
	VerifyFailed int64   `json:"verify_failed"`
	Verified     int64   `json:"verified"`
	RPS          float64 `json:"rps"`
	Latency      struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"latency_ms"`
	// UnwaitedRatio does not count a get that waits for another's load as a
	// hit.
	UnwaitedRatio float64 `json:"unwaited_ratio"`
	Gets          int64   `json:"gets"`
	OriginLoads   int64   `json:"origin_loads"`
	Books         struct {
		Balanced bool     `json:"balanced"`
		Wrong    []string `json:"wrong"`
	} `json:"books"`
}

// wrong describes what went wrong in a sentence.
func (l *loaded) wrong() string {
	s := fmt.Sprintf("Of %d requests %d failed, and %d bodies were wrong", l.Requests, l.Errors, l.VerifyFailed)
	if len(l.Books.Wrong) > 0 {
		s += "; the books do not balance: " + strings.Join(l.Books.Wrong, "; ")
	}
	return s + "."
}

func (b *bench) replayFile(ctx context.Context, work, file string) (err error) {
	s := newStage(filepath.Join(b.dir, fileName(work)), -1)
	defer func() { err = errors.Join(err, s.close()) }()
	origin, t, err := b.launchForTrace(ctx, s)
	if err != nil {
		return err
	}
	before, err := cpuTime(t.procs)
	if err != nil {
		return err
	}
	l, err := b.load(ctx, t, file, origin)
	if err != nil {
		return errors.Join(err, t.alive())
	}
	after, err := cpuTime(t.procs)
	if err != nil {
		return err
	}
	entries, evictions, err := stored(ctx, t)
	if err != nil {
		return err
	}
	lruRatio, err := simulateFile(file, entries)
	if err != nil {
		return err
	}
	// An LRU that gets one request after the other never has two gets that wait
	// for one load. So here a hit is a get that made no load.
	hitRatio := 1 - float64(l.OriginLoads)/float64(max(l.Gets, 1))
	b.say("%s: %d requests, %d verified, %d loads: hit ratio %.4f, without those that waited for another's load %.4f; an LRU of %d entries: %.4f; %d evictions",
		work, l.Requests, l.Verified, l.OriginLoads, hitRatio, l.UnwaitedRatio, entries, lruRatio, evictions)
	b.report.Results = append(b.report.Results, Row{
		Work: work, Contestant: kring, RPS: l.RPS, P50: 1000 * l.Latency.P50, P99: 1000 * l.Latency.P99,
		CPU: micros(after-before) / float64(max(l.Requests, 1)), Rounds: 1,
	})
	misses := Goal{
		Work: work, Metric: "miss_ratio", Peer: fmt.Sprintf("lru of %d entries", entries),
		Want:  (1 - lruRatio + point) / (1 - lruRatio),
		Bound: fmt.Sprintf("Hit ratio %.4f beside %.4f: each node evicts within its own share of the keys, and by bytes.", hitRatio, lruRatio),
	}
	misses.judge(1-hitRatio, 1-lruRatio)
	wrong := Goal{Work: work, Metric: "errors", Peer: "none", Bound: l.wrong()}
	wrong.judge(float64(l.Errors+l.VerifyFailed+int64(len(l.Books.Wrong))), 1)
	b.report.Goals = append(b.report.Goals, misses, wrong)
	return nil
}

// launchForTrace starts the demo origin, whose documents prove themselves, and
// three nodes with little memory.
func (b *bench) launchForTrace(ctx context.Context, s *stage) (origin string, t *team, err error) {
	addrs, err := freePorts(4)
	if err != nil {
		return "", nil, err
	}
	origin = addrs[3]
	dir, err := s.folder("demo-origin")
	if err != nil {
		return "", nil, err
	}
	p, err := s.start(dir, "kring origin", b.kring, "origin", "--listen", origin, "--latency", "0")
	if err != nil {
		return "", nil, err
	}
	if err := p.waitFor(ctx, "http://"+origin+"/_/stats"); err != nil {
		return "", nil, err
	}
	t = &team{name: kring, addrs: addrs[:3]}
	for i, addr := range t.addrs {
		cfg := settings{
			Number: i + 1, Node: nodeName(i), Listen: addr, Peers: t.addrs, Origin: origin, Path: "/docs/{key}",
			Bytes: traceMemory, ValueBytes: 8 << 10,
		}
		p, err := b.launchOne(s, kring, cfg)
		if err != nil {
			return "", nil, err
		}
		t.procs = append(t.procs, p)
	}
	for i, p := range t.procs {
		if err := p.waitFor(ctx, "http://"+t.addrs[i]+"/readyz"); err != nil {
			return "", nil, err
		}
	}
	return origin, t, nil
}

// load runs `kring load` over a trace. An exit code of 1 is no error here: the
// result says what was wrong.
func (b *bench) load(ctx context.Context, t *team, file, origin string) (*loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	urls := make([]string, len(t.addrs))
	for i, addr := range t.addrs {
		urls[i] = "http://" + addr
	}
	cmd := exec.CommandContext(ctx, b.kring, "load", "--nodes", strings.Join(urls, ","), "--group", "docs",
		"--keys", file, "--concurrency", "16", "--origin", "http://"+origin, "--verify", "--json")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	l := &loaded{}
	if e := json.Unmarshal(out, l); e != nil {
		return nil, errors.Join(fmt.Errorf("kring load: %w: %s", e, strings.TrimSpace(complaint.String())), err)
	}
	if err != nil && l.Errors == 0 && l.VerifyFailed == 0 && l.Books.Balanced {
		return nil, fmt.Errorf("kring load: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return l, nil
}

// stored is how many entries all nodes hold and have evicted.
func stored(ctx context.Context, t *team) (entries int, evictions int64, err error) {
	for _, addr := range t.addrs {
		a, err := fetch(ctx, http.MethodGet, "http://"+addr+"/v1/stats", "", nil)
		if err != nil {
			return 0, 0, err
		}
		var books struct {
			Entries   int   `json:"entries"`
			Evictions int64 `json:"evictions"`
		}
		if err := json.Unmarshal(a.body, &books); err != nil {
			return 0, 0, fmt.Errorf("read the books of %s: %w", addr, err)
		}
		entries += books.Entries
		evictions += books.Evictions
	}
	return entries, evictions, nil
}
