package rival_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kring/bench/rival"
	"kring/node/nodetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { http.DefaultClient.CloseIdleConnections() }),
		// These belong to kept connections of transports that live as long as
		// the process.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

const least = 50

// start runs a server until the test ends.
func start(t *testing.T, o rival.Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rival.Serve(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if c, err := net.Dial("tcp", o.Listen); err == nil {
			c.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatal(err)
		default:
		}
	}
}

func get(t *testing.T, url string) (body string, h http.Header) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, res.Status, err, text)
	}
	return string(text), res.Header
}

func startOrigin(t *testing.T) string {
	t.Helper()
	addr := nodetest.FreeAddress(t)
	start(t, rival.Options{Kind: "origin", Listen: addr, ValueBytes: least})
	return "http://" + addr + rival.Prefix
}

// Every contestant serves the origin's values.
func TestContestantsServeTheSame(t *testing.T) {
	origin := startOrigin(t)
	for _, kind := range []string{"net/http", "gin", "kring-http1-peers", "groupcache"} {
		t.Run(kind, func(t *testing.T) {
			addr := nodetest.FreeAddress(t)
			start(t, rival.Options{Kind: kind, Listen: addr, Peers: []string{addr}, Origin: origin})
			for i := range 20 {
				key := fmt.Sprintf("key-%d", i)
				want, _ := get(t, origin+key)
				if len(want) != rival.ValueSize(key, least) {
					t.Fatalf("the origin's %s has %d bytes", key, len(want))
				}
				for range 2 {
					if got, _ := get(t, "http://"+addr+rival.Prefix+key); got != want {
						t.Errorf("%s: %d bytes, want %d", key, len(got), len(want))
					}
				}
			}
		})
	}
}

// The nodes of the variant forward gets to the owner, and say so.
func TestHTTP1NodesCallEachOther(t *testing.T) {
	origin := startOrigin(t)
	nodes := []string{nodetest.FreeAddress(t), nodetest.FreeAddress(t), nodetest.FreeAddress(t)}
	for _, addr := range nodes {
		start(t, rival.Options{Kind: "kring-http1-peers", Listen: addr, Peers: nodes, Origin: origin})
	}
	owners := map[string]int{}
	for i := range 60 {
		key := fmt.Sprintf("key-%d", i)
		want, _ := get(t, origin+key)
		owner := ""
		for n, addr := range nodes {
			got, h := get(t, "http://"+addr+rival.Prefix+key)
			if got != want {
				t.Errorf("%s: %d bytes, want %d", key, len(got), len(want))
			}
			if owner == "" {
				owner = h.Get("Kring-Owner")
			}
			self := fmt.Sprintf("kring-%d", n+1)
			if h.Get("Kring-Owner") != owner || h.Get("Kring-Node") != self {
				t.Errorf("%s at %s: owner %s, node %s, want owner %s", key, self, h.Get("Kring-Owner"), h.Get("Kring-Node"), owner)
			}
			if passedOn := strings.Contains(h.Get("Cache-Status"), "detail=peer:"+owner); passedOn != (self != owner) {
				t.Errorf("%s at %s: Cache-Status %q", key, self, h.Get("Cache-Status"))
			}
		}
		owners[owner]++
	}
	if len(owners) != 3 {
		t.Errorf("keys by owner: %v", owners)
	}
}

func TestServeSaysWhatCannotBe(t *testing.T) {
	for _, o := range []rival.Options{
		{Kind: "nothing"},
		{Kind: "kring-http1-peers", Listen: "127.0.0.1:1", Peers: []string{"127.0.0.1:2"}},
		{Kind: "origin", Listen: "nowhere"},
	} {
		if err := rival.Serve(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
