package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A key space of ten times the budget, nearly all of it values of 1 MB, written
// and read at once: at no time is more than the budget held, and the process
// stays within one and a half budgets and 64 MiB.
func TestMemoryStaysWithinItsBounds(t *testing.T) {
	const budget, writers, puts = 32 << 20, 4, 110
	nodes, origin := cluster(t, 1, "cache: {max_bytes: 32MiB, max_value_bytes: 1MiB}\n")
	n := nodes[0]
	var written atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range puts {
				size := []int{1_000_000, 900_000, 1_000_000, 20_000, 1_000_000}[i%5]
				if status := put(t, fmt.Sprintf("%s/v1/cache/kv/%d-%d", n.url, w, i), bytes.Repeat([]byte{byte(i)}, size)); status != http.StatusCreated {
					t.Errorf("put of %d bytes: %d", size, status)
				}
				written.Add(int64(size))
				// One of those before, which may have been evicted.
				if status, body := get(fmt.Sprintf("%s/v1/cache/kv/%d-%d", n.url, w, i/2)); status != http.StatusOK && status != http.StatusNotFound {
					t.Errorf("get: %d %s", status, body)
				}
				if s := books(t, n); s.Bytes > budget {
					t.Errorf("%d bytes are held, the budget is %d", s.Bytes, budget)
				}
			}
		})
	}
	wg.Wait()
	if written.Load() < 10*budget {
		t.Fatalf("only %d bytes were written", written.Load())
	}
	s := books(t, n)
	if s.MaxBytes != budget || s.Evictions == 0 || s.Bytes < budget/2 {
		t.Errorf("stats: %+v", s)
	}

	// What is larger than max_value_bytes is passed on, and not stored.
	req, err := http.NewRequest(http.MethodPut, origin.url+"/_/control", strings.NewReader(`{"size":2000000}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for i := range 20 {
		if status, body := get(n.url + "/v1/cache/docs/large"); status != http.StatusOK || len(body) < 2_000_000 {
			t.Errorf("a large value: status %d, %d bytes", status, len(body))
		}
		if loads := loadsOf(t, origin, "large"); loads != i+1 {
			t.Errorf("%d loads for %d gets", loads, i+1)
		}
	}
	if after := books(t, n); after.Entries != s.Entries || after.Bytes != s.Bytes {
		t.Errorf("large values have changed what is held from %+v to %+v", s, after)
	}
	if _, peak := n.rss(t); peak > budget*3/2+64<<20 {
		t.Errorf("RSS peaked at %d MiB with a budget of %d MiB", peak>>20, budget>>20)
	}
}

func put(t *testing.T, url string, body []byte) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, url, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// usage is what a node holds.
type usage struct {
	Bytes     int64
	MaxBytes  int64 `json:"max_bytes"`
	Entries   int64
	Evictions int64
}

func books(t *testing.T, p *process) (u usage) {
	t.Helper()
	_, body := get(p.url + "/v1/stats")
	if err := json.Unmarshal([]byte(body), &u); err != nil {
		t.Errorf("stats: %v: %s", err, body)
	}
	return u
}
