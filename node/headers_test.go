package node_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"kring/node"
	"kring/node/nodetest"
)

// A DELETE's condition is compared where the value is, whichever node gets the
// request.
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
			{"If-Match", "*", http.StatusPreconditionFailed}, // it was deleted before
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

// An answer that the origin lets nobody store is passed on with that
// restriction, through each node.
func TestUnstorableAnswersKeepTheirRestriction(t *testing.T) {
	for _, header := range [][2]string{
		{"Cache-Control", "no-store, max-age=60"}, {"Cache-Control", "private, max-age=60"}, {"Vary", "*"},
	} {
		c := nodetest.Start(t, 2)
		c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(header[0], header[1])
			_, _ = w.Write([]byte("secret")) // some tests kill the node
		})
		for _, n := range c.Nodes {
			r := c.Get(n, docs(c.KeyOf(c.Nodes[0], 0)))
			if r.Status != http.StatusOK || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s through %s: %d, Cache-Control %q", header[0], header[1], n.ID, r.Status, r.Header.Get("Cache-Control"))
			}
		}
	}
}

// A GET's conditions are compared with the value, whichever node gets the
// request.
func TestConditionalGetThroughEachNode(t *testing.T) {
	c := nodetest.Start(t, 2)
	const modified, before = "Sat, 01 Nov 2025 10:00:00 GMT", "Sat, 01 Nov 2025 09:00:00 GMT"
	c.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Last-Modified", modified)
		_, _ = w.Write([]byte("v")) // other checks find a failure
	})
	key := c.KeyOf(c.Nodes[0], 0)
	c.Do(c.Nodes[0], http.MethodPut, "/v1/cache/kv/"+key, "v")
	for _, n := range c.Nodes {
		for _, tt := range []struct {
			path, name, value string
			status            int
		}{
			{docs(key), "If-Modified-Since", modified, http.StatusNotModified},
			{docs(key), "If-Modified-Since", before, http.StatusOK},
			{docs(key), "If-Unmodified-Since", before, http.StatusPreconditionFailed},
			{docs(key), "If-Unmodified-Since", modified, http.StatusOK},
			{docs(key), "If-Match", `"x"`, http.StatusPreconditionFailed},
			{docs(key), "If-Match", "*", http.StatusOK},
			{"/v1/cache/kv/" + key, "If-Match", `"x"`, http.StatusPreconditionFailed},
			{"/v1/cache/kv/" + key, "If-Match", "*", http.StatusOK},
			{"/v1/cache/kv/missing", "If-Match", "*", http.StatusNotFound},
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if r := c.Do(n, method, tt.path, "", tt.name, tt.value); r.Status != tt.status {
					t.Errorf("%s %s through %s with %s: %s: %d, want %d", method, tt.path, n.ID, tt.name, tt.value, r.Status, tt.status)
				}
			}
		}
	}
}

// Every problem of a key names the node that acted and how far the request got,
// whichever node was asked.
func TestProblemsSayWhereTheyComeFrom(t *testing.T) {
	c := nodetest.Start(t, 2, func(_ int, cfg *node.Config) {
		docs := cfg.Groups[len(cfg.Groups)-1]
		hasty, nowhere := docs, docs
		hasty.Name, hasty.LoadTimeout = "hasty", 100*time.Millisecond
		nowhere.Name, nowhere.Origin.Pool = "nowhere", "empty"
		cfg.Groups = append(cfg.Groups, hasty, nowhere)
		empty := cfg.Pools[0]
		empty.Name, empty.Endpoints = "empty", nil
		cfg.Pools = append(cfg.Pools, empty)
	})
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	hangs := hijacked(func(c net.Conn, _ *http.Request) { <-c.(*watched).gone })
	for i, tt := range []struct {
		group  string
		answer http.HandlerFunc
		header []string
		code   int
		owner  string // the owner's member of Cache-Status
	}{
		{"docs", status(500), nil, 502, "; fwd=miss; fwd-status=500"},
		{"docs", status(403), nil, 502, "; fwd=miss; fwd-status=403"},
		{"docs", status(404), nil, 404, "; fwd=miss; fwd-status=404; stored"},
		{"docs", raw("nonsense\r\n"), nil, 502, "; fwd=miss; detail=origin-bad-answer"},
		{"hasty", hangs, nil, 504, "; fwd=miss; detail=origin-timeout"},
		{"nowhere", nil, nil, 503, "; detail=no-eligible-endpoint"},
		{"docs", nil, []string{"Cache-Control", "only-if-cached"}, 504, "; detail=not-cached"},
		{"kv", nil, nil, 404, "; hit; detail=negative"},
	} {
		c.Origin.Answer(tt.answer)
		for j, n := range c.Nodes {
			owner := c.Nodes[0]
			key := c.KeyOf(owner, 2*i+j)
			r := c.Get(n, pathOf(tt.group, key), tt.header...)
			want := owner.ID + tt.owner
			if n != owner {
				want += ", " + n.ID + "; fwd=miss; detail=peer:" + owner.ID
			}
			if r.Status != tt.code || r.Header.Get("Cache-Status") != want || r.Header.Get("Kring-Owner") != owner.ID || r.Header.Get("Kring-Node") != n.ID {
				t.Errorf("%s through %s: %d, Cache-Status %q, owner %q; want %d, %q, %q\n%s", tt.group, n.ID,
					r.Status, r.Header.Get("Cache-Status"), r.Header.Get("Kring-Owner"), tt.code, want, owner.ID, r.Body)
			}
		}
	}
	// A request that is refused early says so, and names the owner of the key.
	key := c.KeyOf(c.Nodes[0], 100)
	for _, r := range []nodetest.Response{
		c.Do(c.Nodes[1], http.MethodPut, "/v1/cache/kv/"+key, "v", "If-Match", "*"),
		c.Do(c.Nodes[1], http.MethodPut, "/v1/cache/kv/"+key+"?tll=1s", "v"),
		c.Do(c.Nodes[1], http.MethodGet, "/v1/cache/unheard-of/"+key, ""),
	} {
		if r.Status < 400 || r.Header.Get("Kring-Owner") != c.Nodes[0].ID || !strings.HasPrefix(r.Header.Get("Cache-Status"), c.Nodes[1].ID+"; detail=") {
			t.Errorf("%d, %v", r.Status, r.Header)
		}
	}
}
