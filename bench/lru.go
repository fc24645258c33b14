//go:build linux

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/golang/groupcache/lru"
)

// simulate replays a trace on a plain LRU with room for this many entries, and
// returns the hit ratio.
func simulate(trace io.Reader, entries int) (hitRatio float64, err error) {
	if entries < 1 {
		return 0, fmt.Errorf("an LRU of %d entries", entries)
	}
	has := newPlainLRU(entries)
	var hits, requests int
	lines := bufio.NewScanner(trace)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, _, _ := bytes.Cut(lines.Bytes(), []byte{'\t'})
		if len(key) == 0 {
			continue
		}
		requests++
		if has(string(key)) {
			hits++
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if requests == 0 {
		return 0, errors.New("the trace is empty")
	}
	return float64(hits) / float64(requests), nil
}

// newPlainLRU makes a plain LRU. The function reports whether a key is in it,
// and adds the key.
func newPlainLRU(entries int) func(key any) bool {
	cache := lru.New(entries)
	return func(key any) bool {
		_, ok := cache.Get(key)
		if !ok {
			cache.Add(key, struct{}{})
		}
		return ok
	}
}

// simulateFile is simulate for a file, compressed or not.
func simulateFile(name string, entries int) (hitRatio float64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return 0, err
		}
	}
	hitRatio, err = simulate(r, entries)
	if err != nil {
		return 0, fmt.Errorf("simulate %s: %w", name, err)
	}
	return hitRatio, nil
}
