//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	gcring "github.com/golang/groupcache/consistenthash"

	"kring/bench/drive"
	"kring/bench/rival"
	"kring/consistenthash"
)

// keyCount is how many keys a work uses. All are in memory.
const keyCount = 9000

// lane is one row of a work: requests to a running team.
type lane struct {
	name    string
	team    *team
	targets []drive.Target
	// keys is how many keys are in one request.
	keys int
}

// work is one measurement in which contestants do the same side by side.
type work struct {
	area, name  string
	valueBytes  int
	connections int
	contestants []string
	nodes       int
	// lanes makes the rows of a contestant.
	lanes func(ctx context.Context, w *work, t *team) ([]lane, error)
}

// The names of the works.
const (
	workHit   = "hit at the owner"
	workPeer  = "entry node to owner"
	workBatch = "batch of 100 over three nodes"
	workMiss  = "miss, one load each"
)

func works() []work {
	return []work{
		{
			area: "hit", name: workHit, valueBytes: 1000, connections: 64, nodes: 1, lanes: hitLanes,
			contestants: []string{kring, netHTTP, bareGin, nginx, varnish, groupcached},
		},
		{
			area: "peer", name: workPeer, valueBytes: 1000, connections: 64, nodes: 3, lanes: peerLanes,
			contestants: []string{kring, http1Peers, groupcached, gcDefault, nginxX3},
		},
		{
			area: "batch", name: workBatch, valueBytes: 100, connections: 16, nodes: 3, lanes: batchLanes,
			contestants: []string{kring},
		},
		{
			area: "miss", name: workMiss, valueBytes: 1000, connections: 64, nodes: 1, lanes: missLanes,
			contestants: []string{kring, nginx, varnish, groupcached},
		},
	}
}

func keyNumber(i int) string { return fmt.Sprintf("key-%05d", i) }

func (w *work) get(addr, key string) drive.Request {
	return drive.Get(addr, rival.Prefix+key, rival.ValueSize(key, w.valueBytes))
}

// gets are the requests to one node for all keys that want accepts.
func (w *work) gets(addr string, want func(key string) bool) []drive.Request {
	var requests []drive.Request
	for i := range keyCount {
		if key := keyNumber(i); want(key) {
			requests = append(requests, w.get(addr, key))
		}
	}
	return requests
}

func all(string) bool { return true }

func hitLanes(_ context.Context, w *work, t *team) ([]lane, error) {
	return []lane{{name: t.name, team: t, keys: 1, targets: []drive.Target{{Addr: t.addrs[0], Requests: w.gets(t.addrs[0], all)}}}}, nil
}

// peerLanes ask each node for the other nodes' keys.
func peerLanes(ctx context.Context, w *work, t *team) ([]lane, error) {
	owner := ownership(t)
	l := lane{name: t.name, team: t, keys: 1}
	for i, addr := range t.addrs {
		requests := w.gets(addr, func(key string) bool { return owner(key) != i })
		if err := checkOwners(ctx, t, i, requests[:20]); err != nil {
			return nil, err
		}
		l.targets = append(l.targets, drive.Target{Addr: addr, Requests: requests})
	}
	return []lane{l}, nil
}

// ownership returns the node that owns a key, or -1 where that is unknown or
// does not matter.
func ownership(t *team) func(key string) int {
	switch t.name {
	case kring, http1Peers:
		ring := consistenthash.New(512, nil)
		numbers := map[string]int{}
		for i := range t.addrs {
			ring.Add(nodeName(i))
			numbers[nodeName(i)] = i
		}
		return func(key string) int { return numbers[ring.Get(key)] }
	case groupcached, gcDefault:
		ring := gcring.New(50, nil)
		for _, addr := range t.addrs {
			ring.Add("http://" + addr)
		}
		return func(key string) int { return slices.Index(t.addrs, strings.TrimPrefix(ring.Get(key), "http://")) }
	}
	// As the entry node, nginx calls even itself over a connection.
	return func(string) int { return -1 }
}

// checkOwners gets a few keys and checks that another node answers, where the
// answers say so.
func checkOwners(ctx context.Context, t *team, entry int, requests []drive.Request) error {
	for _, r := range requests {
		path := strings.Fields(string(r.Bytes))[1]
		answer, err := fetch(ctx, http.MethodGet, "http://"+t.addrs[entry]+path, "", nil)
		if err != nil {
			return err
		}
		h := answer.header
		self := h.Get("Bench-Owner") == "self" || h.Get("Kring-Owner") != "" && h.Get("Kring-Owner") == h.Get("Kring-Node")
		if self {
			return fmt.Errorf("%s has %s itself; only keys of other nodes should be asked for", t.addrs[entry], path)
		}
	}
	return nil
}

// missLanes get keys that were never requested before. The CPU time of the
// origin does not count.
func missLanes(_ context.Context, w *work, t *team) ([]lane, error) {
	var asked atomic.Int64
	next := func() *drive.Request {
		r := w.get(t.addrs[0], fmt.Sprintf("new-%09d", asked.Add(1)))
		return &r
	}
	return []lane{{name: t.name, team: t, keys: 1, targets: []drive.Target{{Addr: t.addrs[0], Next: next}}}}, nil
}

// warm gets every key at every node, so that all are in memory.
func (w *work) warm(ctx context.Context, l lane, threads, cpu int) error {
	for _, t := range l.targets {
		if t.Next != nil {
			continue
		}
		var asked atomic.Int64
		next := func() *drive.Request { return &t.Requests[int(asked.Add(1)-1)%len(t.Requests)] }
		const connections = 8
		r, err := drive.Run(ctx, drive.Config{
			Targets: []drive.Target{{Addr: t.Addr, Next: next}}, Connections: connections, Threads: threads, CPU: cpu,
			Duration: time.Minute, Count: (len(t.Requests) + connections - 1) / connections,
		})
		if err == nil {
			err = r.Sample
		}
		if err != nil {
			return fmt.Errorf("warm %s: %w", l.name, err)
		}
	}
	return nil
}

// answer is a whole answer of a server.
type answer struct {
	header http.Header
	body   []byte
}

// fetch is for unmeasured requests. Any status other than 200 is an error.
func fetch(ctx context.Context, method, url, mediaType string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", mediaType)
		req.Header.Set("Accept", mediaType)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s: %.200s", url, res.Status, text)
	}
	return answer{res.Header, text}, err
}
