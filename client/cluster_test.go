package client_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"kring/client"
	"kring/node/nodetest"
)

// against makes a client of a real cluster.
func against(t *testing.T, nodes int) (*nodetest.Cluster, *client.Client) {
	t.Helper()
	cluster := nodetest.Start(t, nodes)
	var cfg client.Config
	for _, n := range cluster.Nodes {
		cfg.Nodes = append(cfg.Nodes, n.URL)
	}
	return cluster, newClient(t, cfg)
}

// hostile are keys that have a second meaning somewhere on the way.
var hostile = []string{
	".", "..", "a/b", "//a", "a/", "a b", "a+b", "a%2Fb", "a%20b", "%", "#", "?", "?ttl=1s", "../../v1/stats", "http://x/y",
	"\"<&>\u2028", "😀", strings.Repeat("k", 1024),
}

func TestHostileKeysThroughEveryNode(t *testing.T) {
	_, c := against(t, 3)
	for _, key := range hostile {
		if w, err := c.Put(t.Context(), "kv", key, []byte("value of "+key), client.PutOptions{}); err != nil || !w.Created {
			t.Errorf("put %q: %+v, %v", key, w, err)
		}
	}
	for range 3 { // once through each entry node
		for _, key := range hostile {
			if v, err := c.Get(t.Context(), "kv", key); err != nil || string(v.Body) != "value of "+key {
				t.Errorf("get %q: %v", key, err)
			}
		}
	}
	items, err := c.BatchGet(t.Context(), "kv", hostile)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range hostile {
		if err := items[i].Err(); err != nil || string(items[i].Body) != "value of "+key {
			t.Errorf("batch %q: %v", key, err)
		}
	}
	if items, err = c.BatchDelete(t.Context(), "kv", hostile[:5]); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		if items[i].Status != http.StatusNoContent {
			t.Errorf("delete %q: status %d", items[i].Key, items[i].Status)
		}
	}
	if items, err = c.BatchGet(t.Context(), "kv", hostile); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		if gone := errors.Is(items[i].Err(), client.ErrNotFound); gone != (i < 5) {
			t.Errorf("batch %q after the delete: %v", items[i].Key, items[i].Err())
		}
	}
}

func TestBytesAreKept(t *testing.T) {
	_, c := against(t, 2)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, value := range map[string][]byte{"empty": {}, "all": all, "long": bytes.Repeat(all, 1000)} {
		if _, err := c.Put(t.Context(), "kv", name, value, client.PutOptions{ContentType: "x/y"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			v, err := c.Get(t.Context(), "kv", name)
			if err != nil || !bytes.Equal(v.Body, value) || v.ContentType != "x/y" {
				t.Errorf("%s: %d bytes, %v; want %d", name, len(v.Body), err, len(value))
			}
		}
		items, err := c.BatchGet(t.Context(), "kv", []string{name})
		if err != nil || !bytes.Equal(items[0].Body, value) || items[0].ContentType != "x/y" || items[0].ETag == "" {
			t.Errorf("%s in a batch: %+v, %v", name, items, err)
		}
	}
}

func TestConditionsOfACluster(t *testing.T) {
	_, c := against(t, 3)
	ctx := t.Context()
	if _, err := c.Get(ctx, "kv", "a"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if w, err := c.Put(ctx, "kv", "a", []byte("1"), client.PutOptions{IfAbsent: true, TTL: time.Hour}); err != nil || !w.Created {
		t.Errorf("got %+v, %v", w, err)
	}
	if _, err := c.Put(ctx, "kv", "a", []byte("2"), client.PutOptions{IfAbsent: true}); !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("got %v", err)
	}
	v, err := c.Get(ctx, "kv", "a")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if again, err := c.GetIfNoneMatch(ctx, "kv", "a", v.ETag); err != nil || !again.NotModified || again.ETag != v.ETag {
			t.Errorf("got %+v, %v", again, err)
		}
	}
	if w, err := c.Put(ctx, "kv", "a", []byte("3"), client.PutOptions{IfMatch: v.ETag}); err != nil || w.Created {
		t.Errorf("got %+v, %v", w, err)
	}
	if _, err := c.Put(ctx, "kv", "a", []byte("4"), client.PutOptions{IfMatch: v.ETag}); !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Delete(ctx, "kv", "a"); err != nil {
		t.Error(err)
	}
	if _, err := c.GetWith(ctx, "docs", "cold", client.GetOptions{OnlyIfCached: true}); !errors.Is(err, client.ErrNotCached) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Put(ctx, "kv", "b", nil, client.PutOptions{}); err != nil {
		t.Error(err)
	}
	if err := c.Purge(ctx, "kv"); err != nil {
		t.Error(err)
	}
	for range 3 {
		if _, err := c.Get(ctx, "kv", "b"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("after the purge: %v", err)
		}
	}
	if err := c.PurgeTags(ctx, "docs", "a tag"); err != nil {
		t.Error(err)
	}
}

func TestRefusalsOfACluster(t *testing.T) {
	cluster, c := against(t, 2)
	ctx := t.Context()
	for want, call := range map[*client.Error]func() error{
		client.ErrUnknownGroup: func() error { _, err := c.Get(ctx, "none", "a"); return err },
		client.ErrKeyTooLong:   func() error { _, err := c.Get(ctx, "kv", strings.Repeat("k", 1025)); return err },
		client.ErrBadKey:       func() error { _, err := c.Get(ctx, "kv", "a\x00b"); return err },
		client.ErrBadTTL: func() error {
			_, err := c.Put(ctx, "kv", "a", nil, client.PutOptions{TTL: -time.Second})
			return err
		},
		client.ErrValueTooLarge: func() error {
			_, err := c.Put(ctx, "kv", "a", make([]byte, 2<<20), client.PutOptions{})
			return err
		},
		client.ErrOriginFailed: func() error {
			cluster.Origin.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
			defer cluster.Origin.Answer(nil)
			_, err := c.Get(ctx, "docs", "failing")
			return err
		},
	} {
		err := call()
		var e *client.Error
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Status == 0 {
			t.Errorf("got %v, want %s", err, want.Code)
		}
	}
	if got := c.Counters().Retries; got != 0 {
		t.Errorf("%d retries of what no node would answer better", got)
	}
}

func TestMembersAndBooks(t *testing.T) {
	cluster, c := against(t, 3)
	if _, err := c.Get(t.Context(), "docs", "a"); err != nil {
		t.Fatal(err)
	}
	members, err := c.Members(t.Context())
	if err != nil || len(members) != 3 {
		t.Fatalf("got %+v, %v", members, err)
	}
	var gets, loads int64
	for i, m := range members {
		if m.ID != cluster.Nodes[i].ID || m.URL != cluster.Nodes[i].URL || m.Incarnation == "" || m.Share <= 0 {
			t.Errorf("member %d is %+v", i, m)
		}
		b, err := c.BooksOf(t.Context(), m.URL)
		if err != nil || b.Node != m.ID {
			t.Errorf("books of %s: %+v, %v", m.ID, b, err)
		}
		gets, loads = gets+b.Gets, loads+b.Loads+b.ServedLoads
	}
	if gets != 1 || loads != 1 {
		t.Errorf("%d gets and %d loads in the books, want 1 and 1", gets, loads)
	}
}
