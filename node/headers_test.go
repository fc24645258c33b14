package node_test

import (
	"net/http"
	"testing"

	"kring/node/nodetest"
)

// A DELETE's condition is compared where the value is, whichever node is asked.
func TestConditionalDeleteThroughEachNode(t *testing.T) {
	c := nodetest.Start(t, 3)
	for i, n := range c.Nodes {
		path := "/v1/cache/kv/" + c.KeyOf(c.Nodes[0], i)
		etag := c.Do(n, http.MethodPut, path, "value").Header.Get("ETag")
		for _, tt := range []struct {
			name, value string
			status      int
		}{
			{"If-Match", `"other"`, http.StatusPreconditionFailed},
			{"If-None-Match", etag, http.StatusPreconditionFailed},
			{"If-Match", etag, http.StatusNoContent},
			{"If-Match", "*", http.StatusPreconditionFailed}, // it is gone
		} {
			if r := c.Do(n, http.MethodDelete, path, "", tt.name, tt.value); r.Status != tt.status {
				t.Errorf("%s through %s with %s: %s: %d %s, want %d", path, n.ID, tt.name, tt.value, r.Status, r.Body, tt.status)
			}
		}
		if r := c.Get(n, path); r.Status != http.StatusNotFound {
			t.Errorf("%s through %s: %d", path, n.ID, r.Status)
		}
	}
}

// What the origin lets nobody keep is sent on as such, through each node.
func TestWhatMayNotBeKeptIsSentOnAsSuch(t *testing.T) {
	for _, header := range [][2]string{
		{"Cache-Control", "no-store, max-age=60"}, {"Cache-Control", "private, max-age=60"}, {"Vary", "*"},
	} {
		c := nodetest.Start(t, 2)
		c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(header[0], header[1])
			_, _ = w.Write([]byte("secret")) // a node that went away fails elsewhere
		})
		for _, n := range c.Nodes {
			r := c.Get(n, docs(c.KeyOf(c.Nodes[0], 0)))
			if r.Status != http.StatusOK || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s through %s: %d, Cache-Control %q", header[0], header[1], n.ID, r.Status, r.Header.Get("Cache-Control"))
			}
		}
	}
}
