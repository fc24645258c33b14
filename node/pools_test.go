package node_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"kring/balance"
	"kring/node"
	"kring/node/nodetest"
)

// startRedis starts a redis-server for one test.
func startRedis(t *testing.T) (address string) {
	t.Helper()
	address = nodetest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("this test needs a redis-server (scripts/test.sh installs it): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // reports the kill
	})
	nodetest.Eventually(t, "redis-server answers", func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	})
	return address
}

// pool is the pool docs as one node shows it.
func pool(t *testing.T, c *nodetest.Cluster, n *nodetest.Node) (p balance.PoolStatus) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.Get(n, "/v1/pools/docs").Body), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// The loads of two nodes and the assignments of an outside worker are counted
// together: no endpoint is two ahead of another.
func TestNodesAndAWorkerShareAPool(t *testing.T) {
	address := startRedis(t)
	c := nodetest.Start(t, 2, func(_ int, cfg *node.Config) {
		p := &cfg.Pools[0]
		p.Policy, p.State = "least_assigned", "redis"
		p.Endpoints = append(p.Endpoints, p.Endpoints[0], p.Endpoints[0])
		p.Endpoints[1].Name, p.Endpoints[2].Name = "b", "c"
		cfg.Redis.Address, cfg.Redis.Timeout = address, 5*time.Second
	})
	const each = 100
	var all sync.WaitGroup
	for i, n := range c.Nodes {
		all.Go(func() {
			for j := range each {
				key := fmt.Sprintf("key-%d-%d", i, j)
				wantValue(t, c.Get(n, "/v1/cache/docs/"+key), key)
			}
		})
	}
	all.Go(func() {
		for j := range each {
			made := c.Do(c.Nodes[j%2], http.MethodPost, "/v1/pools/docs/assignments", "")
			var a struct{ Assignment string }
			if err := json.Unmarshal([]byte(made.Body), &a); err != nil || made.Status != http.StatusCreated {
				t.Errorf("assignment: %d %q", made.Status, made.Body)
				return
			}
			if r := c.Do(c.Nodes[j%2], http.MethodDelete, "/v1/pools/docs/assignments/"+a.Assignment, ""); r.Status != http.StatusNoContent {
				t.Errorf("completion: %d", r.Status)
			}
		}
	})
	all.Wait()
	for _, n := range c.Nodes {
		st := pool(t, c, n)
		least, most, sum := int64(1<<40), int64(0), int64(0)
		for _, e := range st.Endpoints {
			least, most, sum = min(least, e.Assigned), max(most, e.Assigned), sum+e.Assigned
		}
		if sum != 3*each || most-least > 1 || st.LocalPicks != 0 || st.Degraded {
			t.Errorf("%s: %+v; want %d assigned, at most 1 apart", n.ID, st, 3*each)
		}
	}
}

// Hits assign nothing: only loads do.
func TestHitsAssignNothing(t *testing.T) {
	c := nodetest.Start(t, 1, func(_ int, cfg *node.Config) { cfg.Pools[0].Policy = "least_in_flight" })
	n := c.Nodes[0]
	for range 1001 {
		wantValue(t, c.Get(n, "/v1/cache/docs/key"), "key")
	}
	if e := pool(t, c, n).Endpoints[0]; e.Assigned != 1 || e.InFlight != 0 {
		t.Errorf("%+v after one load and 1000 hits, want 1 assigned and nothing in flight", e)
	}
}

// An endpoint that is added over HTTP gets loads if its host is allowed.
func TestLoadsThroughAnAddedEndpoint(t *testing.T) {
	c := nodetest.Start(t, 1, func(_ int, cfg *node.Config) {
		cfg.Pools[0].Endpoints = nil
		cfg.Auth.AllowedOriginHosts = []string{"127.0.0.1"}
	})
	n := c.Nodes[0]
	if r := c.Get(n, "/v1/cache/docs/key"); r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("without endpoints: %d", r.Status)
	}
	if r := c.Do(n, http.MethodPut, "/v1/pools/docs/endpoints/late", `{"url":"`+c.Origin.URL+`"}`); r.Status != http.StatusCreated {
		t.Errorf("put: %d %s", r.Status, r.Body)
	}
	// The refusal is remembered for a moment.
	nodetest.Eventually(t, "the key is loaded", func() bool { return c.Get(n, "/v1/cache/docs/key").Status == http.StatusOK })
	if e := pool(t, c, n).Endpoints[0]; e.Name != "late" || e.Assigned != 1 {
		t.Errorf("%+v, want one load", e)
	}
}
