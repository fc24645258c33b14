package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Books are the counters of GET /v1/stats that must agree with one another. On
// a node with nothing in flight, Gets = Hits + HotHits + Stale + Joined + Peer
// + Loads + Refused, and Served is the sum of the Served…; over the cluster
// ΣPeer = ΣServed + ΣAbandoned.
type Books struct {
	Node          string `json:"node"`
	Gets          int64  `json:"gets"`
	Hits          int64  `json:"hits"`
	HotHits       int64  `json:"hot_hits"`
	Stale         int64  `json:"stale"`
	Joined        int64  `json:"joined"`
	Peer          int64  `json:"peer"`
	Loads         int64  `json:"loads"`
	Refused       int64  `json:"refused"`
	Negative      int64  `json:"negative"`
	Served        int64  `json:"served"`
	ServedHits    int64  `json:"served_hits"`
	ServedStale   int64  `json:"served_stale"`
	ServedJoined  int64  `json:"served_joined"`
	ServedLoads   int64  `json:"served_loads"`
	ServedRefused int64  `json:"served_refused"`
	Refreshes     int64  `json:"refreshes"`
	Abandoned     int64  `json:"abandoned"`

	// Bytes are the bytes of all entries, MaxBytes their limit; the negative
	// ones are those of missing keys.
	Bytes            int64 `json:"bytes"`
	MaxBytes         int64 `json:"max_bytes"`
	NegativeBytes    int64 `json:"negative_bytes"`
	NegativeMaxBytes int64 `json:"negative_max_bytes"`
}

// Member is a node as GET /v1/cluster lists it.
type Member struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Incarnation changes with each restart. It is "0" if the node that was
	// asked has not heard it yet.
	Incarnation string  `json:"incarnation"`
	State       string  `json:"state"`
	Share       float64 `json:"share"`
}

// Members asks one of the nodes for the members of the cluster.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	r, err := c.do(ctx, &call{op: "ask for the cluster", method: http.MethodGet, path: "/v1/cluster", operator: true})
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, failure("ask for the cluster", &r)
	}
	var view struct {
		Members []Member `json:"members"`
	}
	if err := json.Unmarshal(r.body, &view); err != nil {
		return nil, fmt.Errorf("ask for the cluster: %w", err)
	}
	return view.Members, nil
}

// BooksOf asks one node for its books. The node need not be an entry node.
func (c *Client) BooksOf(ctx context.Context, nodeURL string) (Books, error) {
	n, err := parseNode(nodeURL)
	if err != nil {
		return Books{}, fmt.Errorf("ask %q for its books: %w", nodeURL, err)
	}
	call := &call{op: "ask " + n.host + " for its books", method: http.MethodGet, path: "/v1/stats", operator: true}
	r, err := c.try(ctx, n, call, patience{until: time.Now().Add(c.cfg.PerTryTimeout)})
	if err != nil {
		return Books{}, fmt.Errorf("%s: %w", call.op, err)
	}
	if r.status != http.StatusOK {
		return Books{}, failure(call.op, &r)
	}
	var b Books
	if err := json.Unmarshal(r.body, &b); err != nil {
		return Books{}, fmt.Errorf("%s: %w", call.op, err)
	}
	return b, nil
}
