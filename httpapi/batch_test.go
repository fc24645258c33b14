package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/cluster"
	"kring/httpapi"
	"kring/membership"
	"kring/peers"
)

// slowReader is a client that takes two seconds for each write of its answer.
type slowReader struct{ *httptest.ResponseRecorder }

func (r slowReader) Write(b []byte) (int, error) {
	time.Sleep(2 * time.Second)
	return r.ResponseRecorder.Write(b)
}

// bigLoader answers every load with a mebibyte.
type bigLoader struct{}

func (bigLoader) Load(_ context.Context, l *cache.Load) (cache.Loaded, error) {
	l.Sent.Add(1)
	time.Sleep(100 * time.Millisecond)
	e := &cache.Entry{Value: make([]byte, 1<<20)}
	return cache.Loaded{Entry: e, Status: 200, Freshness: cache.Freshness{TTL: -1, StaleWhileRevalidate: -1, StaleIfError: -1}}, nil
}

// A client that reads the first values of a batch slowly still gets the rest:
// request_timeout covers only the node's own waiting.
func TestSlowReaderOfABatchGetsAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := cache.DefaultGroupConfig("docs")
		docs.Origin = cache.OriginConfig{Pool: "docs", Path: "/docs/{key}"}
		c, err := cache.New(cache.Options{Node: testNode, Config: cache.DefaultConfig(), Loader: bigLoader{}, Groups: []cache.GroupConfig{docs}})
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, c)
		p, err := peers.New(peers.Options{
			Self: membership.Member{ID: testNode, URL: "http://127.0.0.1:8001", Weight: 1}, Config: membership.DefaultConfig(),
		})
		if err != nil {
			t.Fatal(err)
		}
		cl := cluster.New(c, p)
		p.Start(cl)
		defer closed(t, p)
		limits := httpapi.DefaultLimits()
		limits.RequestTimeout = 5 * time.Second
		api, err := httpapi.New(httpapi.Options{Node: testNode, ClusterName: "kring", Limits: limits, Cluster: cl, Peers: p})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/batch/docs", strings.NewReader(`{"keys":["a","b","c","d","e","f","g","h"]}`))
		w := slowReader{httptest.NewRecorder()}
		api.Server().Handler.ServeHTTP(w, r)
		var got struct{ Entries []struct{ Status int } }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Entries) != 8 {
			t.Errorf("%d entries, want 8", len(got.Entries))
		}
		for i, e := range got.Entries {
			if e.Status != 200 {
				t.Errorf("entry %d has status %d", i, e.Status)
			}
		}
	})
}
