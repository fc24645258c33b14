package node_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kring/balance"
	"kring/node"
	"kring/node/nodetest"
)

// raw answers with the given bytes and then closes the connection.
func raw(parts ...string) http.HandlerFunc {
	return hijacked(func(c net.Conn, _ *http.Request) {
		for _, p := range parts {
			if _, err := io.WriteString(c, p); err != nil {
				return // the node has closed the connection
			}
		}
	})
}

// hijacked passes the connection of a request to f, and then closes it.
func hijacked(f func(c net.Conn, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		// Reading shows what the node sends, and when it closes.
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, rw.Reader) // until the node closes
		}()
		f(&watched{conn, gone}, r)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // the node may have closed it first
		}
		<-gone
	}
}

// watched is a connection that signals when its other side ends.
type watched struct {
	net.Conn
	gone <-chan struct{}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"

// Whatever an origin does to its answers, clients of every node get one clear
// error, no part of the answer is kept, and the origin is not asked again and
// again.
func TestHostileOriginThroughACluster(t *testing.T) {
	var internal atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { internal.Add(1) }))
	defer target.Close()
	c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) {
		cfg.Pools[0].Origin.MaxBodyBytes = 1 << 20
		cfg.Cache.MaxValueBytes = 1 << 20
		hasty := cfg.Groups[len(cfg.Groups)-1]
		hasty.Name, hasty.LoadTimeout = "hasty", 300*time.Millisecond
		cfg.Groups = append(cfg.Groups, hasty)
	})
	for i, tt := range []struct {
		name   string
		group  string
		answer http.HandlerFunc
		status int
		code   string
	}{
		{"500", "docs", raw("HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops"), 502, "origin-failed"},
		{"shorter than its length", "docs", raw(ok + "Content-Length: 10\r\n\r\nshort"), 502, "origin-bad-answer"},
		{"longer than its length", "docs", raw(ok + "Content-Length: 5\r\n\r\nlonger than that"), 502, "origin-bad-answer"},
		{"chunked without its end", "docs", raw(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), 502, "origin-bad-answer"},
		{"two different lengths", "docs", raw(ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), 502, "origin-bad-answer"},
		{"a part", "docs", raw("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/2\r\nContent-Length: 1\r\n\r\na"), 502, "origin-bad-answer"},
		{"a 304 to an unconditional request", "docs", raw("HTTP/1.1 304 Not Modified\r\n\r\n"), 502, "origin-bad-answer"},
		{"a redirect inside", "docs", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL+"/latest/meta-data", http.StatusFound)
		}, 502, "origin-failed"},
		{"no HTTP", "docs", raw("SSH-2.0-OpenSSH_9.2\r\n"), 502, "origin-bad-answer"},
		{"endless", "docs", hijacked(endless(ok+"Transfer-Encoding: chunked\r\n\r\n", "1000\r\n"+strings.Repeat("x", 4096)+"\r\n")), 502, "origin-bad-answer"},
		{"10 GB", "docs", hijacked(endless(ok+"Content-Length: 10000000000\r\n\r\n", strings.Repeat("x", 4096))), 502, "origin-bad-answer"},
		{"hangs", "hasty", hijacked(func(c net.Conn, _ *http.Request) { <-c.(*watched).gone }), 504, "origin-timeout"},
		{"drips its head", "hasty", hijacked(dripping("", ok)), 504, "origin-timeout"},
		{"drips its body", "hasty", hijacked(dripping(ok+"Content-Length: 1000000\r\n\r\n", strings.Repeat("x", 1000000))), 504, "origin-timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.Origin.Answer(tt.answer)
			key := c.KeyOf(c.Nodes[i%3], i)
			release := c.Origin.Hold()
			defer release()
			if tt.group == "hasty" {
				release() // the load's time runs from here
			}
			before := gets(c)
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					r := c.Get(c.Nodes[i%3], pathOf(tt.group, key))
					if r.Status != tt.status || !strings.Contains(r.Body, "/problems/"+tt.code+`"`) || r.Header.Get("Content-Type") != "application/problem+json" {
						t.Errorf("status %d, %s; want %d %s", r.Status, r.Body, tt.status, tt.code)
					}
				})
			}
			nodetest.Eventually(t, "all 12 have asked", func() bool { return gets(c)-before >= 12 })
			release()
			wg.Wait()
			// Some clients of a load with a time limit may arrive after its
			// error was forgotten.
			most := map[string]int{"docs": 1, "hasty": 6}[tt.group]
			if n := c.Origin.Loads(key); n < 1 || n > most {
				t.Errorf("12 clients cost %d requests", n)
			}
			for _, n := range c.Nodes {
				if b := c.Books(n); b.Entries != 0 {
					t.Errorf("%s has kept something", n.ID)
				}
			}
		})
	}
	if n := internal.Load(); n != 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
	wantNothingInFlight(t, c)
	c.Origin.Answer(nil)
	for i, k := range someKeys(12) {
		wantValue(t, c.Get(c.Nodes[i%3], docs(k)), k)
	}
}

// endless writes a head, and then one block for ever.
func endless(head, block string) func(net.Conn, *http.Request) {
	return func(c net.Conn, _ *http.Request) {
		if _, err := io.WriteString(c, head); err != nil {
			return
		}
		for {
			if _, err := io.WriteString(c, block); err != nil {
				return // expected: the node closes
			}
		}
	}
}

// dripping writes a first piece, and then slowly byte after byte of the rest.
func dripping(first, rest string) func(net.Conn, *http.Request) {
	return func(c net.Conn, _ *http.Request) {
		if _, err := io.WriteString(c, first); err != nil {
			return
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := range len(rest) {
			if _, err := io.WriteString(c, rest[i:i+1]); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-c.(*watched).gone:
				return
			}
		}
	}
}

// gets is how many gets all nodes have counted, including waiting ones.
func gets(c *nodetest.Cluster) (n int64) {
	for _, nd := range c.Nodes {
		n += c.Books(nd).Gets
	}
	return n
}

// wantNothingInFlight waits until every endpoint has been released at every
// node, also after loads that failed or hung.
func wantNothingInFlight(t *testing.T, c *nodetest.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		nodetest.Eventually(t, n.ID+" has given all endpoints back", func() bool {
			return strings.Contains(c.Get(n, "/v1/pools/docs").Body, `"in_flight":0`)
		})
	}
}

// A gzip bomb is passed on unchanged and never unpacked.
func TestGzipBombStaysPacked(t *testing.T) {
	c := nodetest.Start(t, 2, func(_ int, cfg *node.Config) {
		cfg.Pools[0].Origin.MaxBodyBytes, cfg.Cache.MaxValueBytes = 1<<20, 1<<20
	})
	var bomb bytes.Buffer
	w, err := gzip.NewWriterLevel(&bomb, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeros{}, 4<<20); err != nil { // four times max_body_bytes
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes()) // if this fails, the checks below do
	})
	key := c.KeyOf(c.Nodes[0], 0)
	for _, n := range c.Nodes {
		r := c.Get(n, docs(key), "Accept-Encoding", "gzip")
		if r.Status != http.StatusOK || r.Body != bomb.String() || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("through %s: status %d, %d bytes, encoding %q", n.ID, r.Status, len(r.Body), r.Header.Get("Content-Encoding"))
		}
	}
	if b := c.Books(c.Nodes[0]); b.Bytes > int64(2*bomb.Len()) {
		t.Errorf("%d bytes are held for %d packed ones", b.Bytes, bomb.Len())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The origin has no listener: a clear 502 through every node, and no load on
// the books of an origin that saw no request.
func TestOriginThatRefusesConnections(t *testing.T) {
	nobody := "http://" + nodetest.FreeAddress(t)
	c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) {
		cfg.Pools[0].Endpoints = []balance.EndpointConfig{{Name: "a", URL: nobody, Weight: 1}}
	})
	for i := range 9 {
		r := c.Get(c.Nodes[i%3], docs(fmt.Sprint("k", i/3)))
		if r.Status != http.StatusBadGateway || !strings.Contains(r.Body, "origin-failed") {
			t.Errorf("status %d, %s", r.Status, r.Body)
		}
	}
}

// A stored value is served instead of the error, through every node.
func TestStaleInsteadOfAnOriginsError(t *testing.T) {
	c := nodetest.Start(t, 3)
	c.Origin.Answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0, stale-if-error=600")
		_, _ = fmt.Fprint(w, "good") // if this fails, the checks below do
	})
	keys := someKeys(9)
	for i, k := range keys {
		if r := c.Get(c.Nodes[i%3], docs(k)); r.Body != "good" {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) })
	total := c.Origin.Total()
	for range 3 {
		for i, k := range keys {
			r := c.Get(c.Nodes[(i+1)%3], docs(k))
			if r.Status != http.StatusOK || r.Body != "good" || !strings.Contains(r.Header.Get("Cache-Status"), "detail=stale") {
				t.Errorf("%s: status %d, %q, Cache-Status %q", k, r.Status, r.Body, r.Header.Get("Cache-Status"))
			}
		}
	}
	if asked := c.Origin.Total() - total; asked < len(keys) || asked >= 3*len(keys) {
		t.Errorf("%d requests to a failing origin for %d keys asked for 3 times each", asked, len(keys))
	}
}

// inSteps makes client i wait for most of the clients before it. With 500
// clients that connect at once, nodes on two cores would notice each other, and
// the requests, too late.
func inSteps(t *testing.T, c *nodetest.Cluster, i int) {
	t.Helper()
	if i%25 == 0 {
		nodetest.Eventually(t, "those before have asked", func() bool { return gets(c) >= int64(i) })
	}
}

// Five hundred clients wait for one slow load. Each leaves at its own deadline
// with a 504, and the load still fills the cache.
func TestSlowOriginAndFiveHundredClientsOfOneKey(t *testing.T) {
	c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) {
		cfg.Limits.RequestTimeout = 2 * time.Second
		cfg.Groups[len(cfg.Groups)-1].LoadTimeout = time.Minute
	})
	key := c.KeyOf(c.Nodes[0], 0)
	release := c.Origin.Hold()
	defer release()
	var wg sync.WaitGroup
	for i := range 500 {
		inSteps(t, c, i)
		wg.Go(func() {
			if r := c.Get(c.Nodes[i%3], docs(key)); r.Status != http.StatusGatewayTimeout || !strings.Contains(r.Body, "origin-timeout") {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
		})
	}
	wg.Wait()
	release()
	nodetest.Eventually(t, "the load has filled the cache", func() bool { return c.Books(c.Nodes[0]).Entries == 1 })
	for _, n := range c.Nodes {
		wantValue(t, c.Get(n, docs(key)), key)
	}
	if n := c.Origin.Loads(key); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// Five hundred clients ask for 500 keys: each node makes as many loads as it
// may, the others get a 503 meanwhile, and hits go on.
func TestSlowOriginAndFiveHundredKeys(t *testing.T) {
	const maxLoads = 5
	c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Pools[0].Origin.MaxLoads = maxLoads })
	wantValue(t, c.Get(c.Nodes[0], docs("hot")), "hot")
	release := c.Origin.Hold()
	defer release()
	var refused, answered atomic.Int64
	var wg sync.WaitGroup
	for i := range 500 {
		inSteps(t, c, i)
		wg.Go(func() {
			key := fmt.Sprint("slow-", i)
			switch r := c.Get(c.Nodes[i%3], docs(key)); {
			case r.Status == http.StatusOK && r.Body == nodetest.Body(key):
				answered.Add(1)
			case r.Status == http.StatusServiceUnavailable && strings.Contains(r.Body, "overloaded") && r.Header.Get("Retry-After") != "":
				refused.Add(1)
			default:
				t.Errorf("%s: status %d %s", key, r.Status, r.Body)
			}
		})
	}
	nodetest.Eventually(t, "all others are refused while the loads run", func() bool { return refused.Load() == 500-3*maxLoads })
	for i := range 50 {
		wantValue(t, c.Get(c.Nodes[i%3], docs("hot")), "hot")
	}
	if n := answered.Load(); n != 0 {
		t.Errorf("%d loads have ended", n)
	}
	release()
	wg.Wait()
	if total := c.Origin.Total(); total != 1+3*maxLoads || answered.Load() != 3*maxLoads {
		t.Errorf("%d requests to the origin, %d answers", total, answered.Load())
	}
	wantNothingInFlight(t, c)
}

// A waiter with a short deadline leaves on time. Waiters with more time get the
// value of the same load.
func TestAWaiterWithAShortDeadline(t *testing.T) {
	c := nodetest.Start(t, 3, func(i int, cfg *node.Config) {
		if i == 1 {
			cfg.Limits.RequestTimeout = 300 * time.Millisecond
		}
	})
	key := c.KeyOf(c.Nodes[0], 0)
	release := c.Origin.Hold()
	defer release()
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() { wantValue(t, c.Get(c.Nodes[i%2*2], docs(key)), key) })
	}
	nodetest.Eventually(t, "the load is under way", func() bool { return c.Origin.Loads(key) == 1 })
	if r := c.Get(c.Nodes[1], docs(key)); r.Status != http.StatusGatewayTimeout {
		t.Errorf("in a hurry: status %d %s", r.Status, r.Body)
	}
	release()
	wg.Wait()
	if n := c.Origin.Loads(key); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// The request id of a problem, from any node, leads to the line about the load
// in the log of the key's owner.
func TestAFailedLoadIsFoundByItsRequest(t *testing.T) {
	c := nodetest.Start(t, 2)
	c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusBadGateway) })
	owner, other := c.Nodes[0], c.Nodes[1]
	key := c.KeyOf(owner, 1)
	if r := c.Get(other, docs(key), "X-Request-ID", "mine-1"); r.Status != http.StatusBadGateway || !strings.Contains(r.Body, "mine-1") {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	for line := range strings.Lines(owner.Log()) {
		if strings.Contains(line, `msg="load failed"`) && strings.Contains(line, "request_id=mine-1") && strings.Contains(line, "group=docs key="+key) {
			return
		}
	}
	t.Errorf("the load of %s for request mine-1 is not in the owner's log:\n%s", key, owner.Log())
}
