package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stuckReaders opens n connections with a small receive window; each sends a
// request and reads nothing.
func stuckReaders(t *testing.T, url string, n int, request func(i int) string) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		d := net.Dialer{
			LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+i%5))},
			Control: func(_, _ string, c syscall.RawConn) (err error) {
				if e := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) }); e != nil {
					return e
				}
				return err
			},
		}
		conn, err := d.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, request(i)); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns[i] = conn
	}
	return conns
}

func getRequest(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: k\r\n\r\n" }

func batchRequest(group string, keys []string) string {
	body := `{"keys":["` + strings.Join(keys, `","`) + `"]}`
	return fmt.Sprintf("POST /v1/batch/%s HTTP/1.1\r\nHost: k\r\nContent-Length: %d\r\n\r\n%s", group, len(body), body)
}

// answered is how many requests of a route were answered, or are being.
func answered(t *testing.T, p *process, route string) int {
	t.Helper()
	_, body := get(p.url + "/metrics")
	n := int(metric(t, p, "kring_http_requests_in_flight"))
	for _, m := range regexp.MustCompile(`(?m)^kring_http_requests_total\{.*`+regexp.QuoteMeta(route)+`.*\} (\d+)$`).FindAllStringSubmatch(body, -1) {
		one, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += one
	}
	return n
}

// Clients that send a request and never read: the memory of the node that they
// ask does not grow with their number, and other clients are answered.
func TestReadersThatNeverReadLeaveMemoryInItsBounds(t *testing.T) {
	for _, tt := range []struct {
		name, more string
		nodes      int
		budget     int64
		values     int // that are stored, of so many bytes
		bytes      int
		readers    int
		route      string
		request    func(keys []string) string
	}{
		{
			"batches of a value that JSON makes six times as long", "", 1, 256 << 20, 1, 1 << 20, 300, "/v1/batch/:group",
			func(keys []string) string { return batchRequest("kv", keys) },
		},
		{
			"batches of many values", "cache: {max_bytes: 64MiB}\n", 1, 64 << 20, 40, 1_000_000, 200, "/v1/batch/:group",
			func(keys []string) string { return batchRequest("kv", keys) },
		},
		{
			"a large value of another node", "cache: {max_value_bytes: 8MiB}\n", 2, 256 << 20, 1, 8 << 20, 150, "/v1/cache/:group/*key",
			func(keys []string) string { return getRequest("/v1/cache/kv/" + keys[0]) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, _ := cluster(t, tt.nodes, tt.more)
			n, owner := nodes[0], nodes[len(nodes)-1]
			var keys []string
			for i := 0; len(keys) < tt.values; i++ {
				key := fmt.Sprint("v", i)
				req, err := http.NewRequest(http.MethodPut, n.url+"/v1/cache/kv/"+key, bytes.NewReader(bytes.Repeat([]byte{1}, tt.bytes)))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					t.Fatalf("put: %d", resp.StatusCode)
				}
				if resp.Header.Get("Kring-Owner") == owner.id {
					keys = append(keys, key)
				}
			}
			before := answered(t, n, tt.route)
			stuckReaders(t, n.url, tt.readers, func(int) string { return tt.request(keys) })
			eventually(t, "all requests have come", func() bool { return answered(t, n, tt.route)-before >= tt.readers })
			eventually(t, "nothing arrives any more", func() bool {
				return tt.nodes == 1 || metric(t, n, `kring_peer_calls_in_flight{peer="`+owner.id+`"}`) == 0
			})
			c := client(t, "127.0.0.9")
			eventually(t, "another client is answered", func() bool {
				resp, err := c.Get(n.url + "/v1/cache/kv/" + keys[0])
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				return err == nil && resp.StatusCode == http.StatusOK && len(b) == tt.bytes
			})
			now, peak := n.rss(t)
			t.Logf("RSS %d MiB, at most %d MiB; %v bytes charged, %v connections closed, %v requests refused", now>>20, peak>>20,
				metric(t, n, "kring_response_bytes"), metric(t, n, "kring_response_connections_closed_total"), metric(t, n, "kring_response_refused_total"))
			if most := tt.budget*3/2 + 64<<20; peak > most {
				t.Errorf("RSS peaked at %d MiB, want %d MiB at most", peak>>20, most>>20)
			}
		})
	}
}

// A client that reads slowly but steadily keeps its connection while those that
// read nothing lose theirs to others.
func TestASlowReaderOutlivesThoseThatReadNothing(t *testing.T) {
	// More than the kernel takes of an answer that nobody reads.
	const size = 4 << 20
	nodes, _ := cluster(t, 1, "cache: {max_value_bytes: 4MiB}\nlimits: {response_bytes: 13MiB}\n")
	n := nodes[0]
	for i := range 8 {
		if status := put(t, fmt.Sprint(n.url, "/v1/cache/kv/v", i), bytes.Repeat([]byte{byte(i)}, size)); status != http.StatusCreated {
			t.Fatalf("put: %d", status)
		}
	}
	slow := stuckReaders(t, n.url, 1, func(int) string { return getRequest("/v1/cache/kv/v0") })[0]
	closed := make(chan struct{})
	rest := make(chan error, 1)
	go func() {
		resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
		if err != nil {
			rest <- err
			return
		}
		defer resp.Body.Close()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for hurry := false; !hurry; {
			select {
			case <-closed:
				hurry = true
			case <-tick.C:
			}
			if _, err := io.CopyN(io.Discard, resp.Body, 1024); err != nil {
				rest <- err
				return
			}
		}
		_, err = io.Copy(io.Discard, resp.Body)
		rest <- err
	}()
	stuckReaders(t, n.url, 2, func(i int) string { return getRequest(fmt.Sprint("/v1/cache/kv/v", 1+i)) })
	eventually(t, "three values are charged", func() bool { return metric(t, n, "kring_response_bytes") == 3*size })
	for i := range 2 { // each takes the place of one
		eventually(t, "another client gets its value", func() bool {
			status, body := get(fmt.Sprint(n.url, "/v1/cache/kv/v", 3+i))
			return status == http.StatusOK && len(body) == size
		})
	}
	eventually(t, "those that read nothing are closed", func() bool {
		return metric(t, n, "kring_response_connections_closed_total") >= 1 && metric(t, n, "kring_response_bytes") <= 2*size
	})
	close(closed)
	if err := <-rest; err != nil {
		t.Errorf("the slow reader's answer broke off: %v", err)
	}
	eventually(t, "all is given back", func() bool { return metric(t, n, "kring_response_bytes") <= size })
}
