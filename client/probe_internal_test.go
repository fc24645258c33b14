package client

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// Each silence of a node needs a new probe: an earlier answer says nothing
// about now.
func TestEachSilenceNeedsAProbe(t *testing.T) {
	var asked atomic.Int64
	var status atomic.Int64
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if status.Load() == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(int(status.Load()))
	}))
	defer node.Close()
	c, err := New(Config{Nodes: []string{node.URL}, SilenceTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := c.nodes[0]
	for i, row := range []struct {
		status  int64
		answers bool
	}{{200, true}, {0, false}, {503, true}, {0, false}} {
		status.Store(row.status)
		before, heard := asked.Load(), n.heard.Load()
		if got := c.answers(n); got != row.answers || asked.Load() == before {
			t.Errorf("question %d: %v, want %v; the node was asked %d times", i, got, row.answers, asked.Load()-before)
		}
		if (n.heard.Load() > heard) != row.answers {
			t.Errorf("question %d: answered %v, heard at %d after %d", i, row.answers, n.heard.Load(), heard)
		}
	}
}
