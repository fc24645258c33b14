//go:build linux

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"kring/cache"
)

// hitRatio prints the hit ratios of Kring's store on traces, beside those of a
// plain LRU with the same number of entries.
func hitRatio(ctx context.Context, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("bench hitratio", pflag.ContinueOnError)
	traces := flags.String("traces", "../shared/traces", "directory of the traces")
	shares := flags.IntSlice("percent", []int{1, 5, 10}, "sizes of the store, of each trace's distinct keys")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(*traces, "*.gz"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("--traces: %q: no *.gz is there", *traces)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "trace\trequests\tkeys\tentries\t\tLRU\tKring\tpoints\t")
	for _, name := range names {
		t, err := readTrace(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, percent := range *shares {
			entries := max(1, t.keys*percent/100)
			mine, held, err := t.kring(ctx, entries)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if held > entries {
				return fmt.Errorf("%s: the store holds %d entries, the LRU %d: that is not fair", name, held, entries)
			}
			plain := t.lru(entries)
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d %%\t%.2f %%\t%.2f %%\t%+.2f\t\n",
				filepath.Base(name), len(t.requests), t.keys, entries, percent, 100*plain, 100*mine, 100*(mine-plain))
		}
	}
	return w.Flush()
}

// trace is a list of requests. Keys are numbered in the order of their first
// request.
type trace struct {
	requests []int
	keys     int
}

func readTrace(name string) (t trace, err error) {
	f, err := os.Open(name)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return t, err
	}
	numbers := map[string]int{}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, _, _ := bytes.Cut(lines.Bytes(), []byte{'\t'})
		if len(key) == 0 {
			continue
		}
		n, ok := numbers[string(key)]
		if !ok {
			n = len(numbers)
			numbers[string(key)] = n
		}
		t.requests = append(t.requests, n)
	}
	t.keys = len(numbers)
	if t.keys == 0 {
		return t, errors.Join(errors.New("the trace is empty"), lines.Err())
	}
	return t, lines.Err()
}

// key is a key's name. All names have one length, and so have all values, so
// that a budget in bytes is a number of entries.
func (t *trace) key(n int) cache.Key {
	return cache.Key{Group: "docs", Key: fmt.Sprintf("key-%012d", n)}
}

// lru is the hit ratio of a plain LRU with room for this many entries.
func (t *trace) lru(entries int) float64 {
	hits := newPlainLRU(entries)
	n := 0
	for _, k := range t.requests {
		if hits(k) {
			n++
		}
	}
	return float64(n) / float64(len(t.requests))
}

// kring is the hit ratio of a node's cache with room for this many entries.
func (t *trace) kring(ctx context.Context, entries int) (ratio float64, held int, err error) {
	one, err := t.entrySize(ctx)
	if err != nil {
		return 0, 0, err
	}
	c, err := newTraceCache(one * int64(entries))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	hits := 0
	for _, k := range t.requests {
		a, err := get(ctx, c, t.key(k))
		if err != nil {
			return 0, 0, err
		}
		if a.Kind == cache.KindHit {
			hits++
		}
	}
	return float64(hits) / float64(len(t.requests)), int(c.Stats().Entries), nil
}

func get(ctx context.Context, c *cache.Cache, key cache.Key) (cache.Answer, error) {
	g, err := c.Group(key.Group)
	if err != nil {
		return cache.Answer{}, err
	}
	r := g.Read(key.Key, false)
	return r.Answer(ctx, cache.OwnerTerm)
}

// entrySize is the charge of one entry, in bytes.
func (t *trace) entrySize(ctx context.Context) (n int64, err error) {
	c, err := newTraceCache(1 << 20)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := get(ctx, c, t.key(0)); err != nil {
		return 0, err
	}
	return c.Stats().Bytes, nil
}

// newTraceCache is a cache with its whole budget for values.
func newTraceCache(bytes int64) (*cache.Cache, error) {
	group := cache.DefaultGroupConfig("docs")
	group.Origin = cache.OriginConfig{Pool: "trace", Path: "/{key}"}
	group.TTL, group.Jitter = 0, 0
	cfg := cache.DefaultConfig()
	cfg.MaxBytes, cfg.NegativeShare = bytes, 0
	value := make([]byte, 100)
	return cache.New(cache.Options{
		Node: "bench", Config: cfg, Groups: []cache.GroupConfig{group},
		Loader: cache.LoaderFunc(func(_ context.Context, l *cache.Load) (cache.Loaded, error) {
			l.Sent.Add(1)
			return cache.Loaded{Entry: &cache.Entry{Value: value}, Status: 200, Freshness: cache.Unsaid}, nil
		}),
	})
}
