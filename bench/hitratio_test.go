//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeTrace(t *testing.T, dir, name, text string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A small store behaves as a plain LRU of exactly as many entries.
func TestHitRatioOfASmallStore(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "k%d\t%d\n\n", i*i%211, i)
	}
	writeTrace(t, dir, "a.gz", text.String())
	tr, err := readTrace(filepath.Join(dir, "a.gz"))
	if err != nil || len(tr.requests) != 3000 || tr.keys < 100 {
		t.Fatalf("%d requests, %d keys: %v", len(tr.requests), tr.keys, err)
	}
	for _, entries := range []int{1, 7, 50, tr.keys} {
		mine, held, err := tr.kring(t.Context(), entries)
		if err != nil || held != entries || mine != tr.lru(entries) {
			t.Errorf("%d entries: %v with %d held, an LRU has %v: %v", entries, mine, held, tr.lru(entries), err)
		}
	}
}

// Keys that are requested again and again survive a scan; in a plain LRU they
// do not.
func TestHitRatioWithAScan(t *testing.T) {
	tr := trace{keys: 100_000}
	for round := range 5 {
		for i := range 600 {
			tr.requests = append(tr.requests, i, i)
		}
		for i := range 5000 {
			tr.requests = append(tr.requests, 1000+round*5000+i)
		}
	}
	mine, _, err := tr.kring(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	if plain := tr.lru(1000); mine < plain+0.06 {
		t.Errorf("hit ratio %.3f, plain LRU %.3f", mine, plain)
	}
}

func TestHitRatioPrintsATable(t *testing.T) {
	dir := t.TempDir()
	writeTrace(t, dir, "b.keys.gz", strings.Repeat("a\nb\nc\nd\n", 10))
	var out bytes.Buffer
	if err := hitRatio(t.Context(), []string{"--traces", dir, "--percent", "50,100"}, &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || !strings.Contains(lines[2], "100 %  90.00 %  90.00 %   +0.00") {
		t.Error(out.String())
	}
	writeTrace(t, dir, "empty.gz", "")
	for _, args := range [][]string{{"--traces", filepath.Join(dir, "none")}, {"--traces", dir}, {"--nonsense"}} {
		if err := hitRatio(t.Context(), args, &out); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
}
