package nodetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Books are the counters of /v1/stats that must balance.
type Books struct {
	Gets         int64 `json:"gets"`
	Hits         int64 `json:"hits"`
	HotHits      int64 `json:"hot_hits"`
	Stale        int64 `json:"stale"`
	Joined       int64 `json:"joined"`
	Peer         int64 `json:"peer"`
	Loads        int64 `json:"loads"`
	Refused      int64 `json:"refused"`
	Served       int64 `json:"served"`
	ServedHits   int64 `json:"served_hits"`
	ServedStale  int64 `json:"served_stale"`
	ServedJoined int64 `json:"served_joined"`
	ServedLoads  int64 `json:"served_loads"`
	ServedRefuse int64 `json:"served_refused"`
	Refreshes    int64 `json:"refreshes"`
	Abandoned    int64 `json:"abandoned"`
	Bytes        int64 `json:"bytes"`
	MaxBytes     int64 `json:"max_bytes"`
	Entries      int64 `json:"entries"`
	Evictions    int64 `json:"evictions"`
}

// Books asks a node for its books.
func (c *Cluster) Books(n *Node) Books {
	c.t.Helper()
	r := c.Get(n, "/v1/stats")
	var b Books
	if err := json.Unmarshal([]byte(r.Body), &b); r.Status != http.StatusOK || err != nil {
		c.t.Errorf("stats of %s: status %d: %v", n.ID, r.Status, err)
	}
	return b
}

// checkBooks waits until the identities hold, that is until nothing is in
// flight, and reports the ones that never hold.
func (c *Cluster) checkBooks() {
	var wrong []string
	for deadline := time.Now().Add(c.patience()); ; {
		wrong = c.unbalanced()
		if len(wrong) == 0 || time.Now().After(deadline) {
			break
		}
		<-time.After(10 * poll)
	}
	for _, w := range wrong {
		c.t.Errorf("the books do not balance: %s", w)
	}
}

func (c *Cluster) unbalanced() (wrong []string) {
	var peer, served, abandoned, loads int64
	for _, n := range c.Nodes {
		if !n.Alive() {
			continue
		}
		b := c.Books(n)
		if sum := b.Hits + b.HotHits + b.Stale + b.Joined + b.Peer + b.Loads + b.Refused; b.Gets != sum {
			wrong = append(wrong, fmt.Sprintf("%s: gets %d, sum of the answers %d: %+v", n.ID, b.Gets, sum, b))
		}
		if sum := b.ServedHits + b.ServedStale + b.ServedJoined + b.ServedLoads + b.ServedRefuse; b.Served != sum {
			wrong = append(wrong, fmt.Sprintf("%s: served %d, sum %d", n.ID, b.Served, sum))
		}
		if b.Bytes > b.MaxBytes {
			wrong = append(wrong, fmt.Sprintf("%s: %d bytes of %d", n.ID, b.Bytes, b.MaxBytes))
		}
		peer, served, abandoned = peer+b.Peer, served+b.Served, abandoned+b.Abandoned
		loads += b.Loads + b.ServedLoads + b.Refreshes
	}
	if c.lossy {
		return wrong
	}
	if peer != served+abandoned {
		wrong = append(wrong, fmt.Sprintf("peer %d, served %d + abandoned %d", peer, served, abandoned))
	}
	if total := int64(c.Origin.Total()); loads != total {
		wrong = append(wrong, fmt.Sprintf("loads %d, the origin saw %d", loads, total))
	}
	return wrong
}
