package httpapi

import (
	_ "embed" // openapi.yaml
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
	"kring/peers"
)

//go:embed openapi.yaml
var openapiYAML []byte

// alive says that the process answers. It depends on nothing else.
func (a *API) alive(c *gin.Context, _ cache.Key) error {
	a.respond(c, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

// ready says whether this node should get clients.
func (a *API) ready(c *gin.Context, _ cache.Key) error {
	if a.draining() {
		return cache.ErrDraining
	}
	if ok, reason := a.peers.Ready(); !ok {
		return errNotReady.With(reason)
	}
	body := "ready\n"
	if c.Request.URL.Query().Has("verbose") {
		body = "[+] not draining\n[+] peers: " + a.summary() + "\nready\n"
	}
	a.respond(c, "text/plain; charset=utf-8", []byte(body))
	return nil
}

// summary says how many members can be called.
func (a *API) summary() string {
	members := a.peers.Members()
	active := 0
	for i := range members {
		if members[i].State == peers.StateActive {
			active++
		}
	}
	return fmt.Sprintf("%d of %d active", active, len(members))
}

func (a *API) openapi(c *gin.Context, _ cache.Key) error {
	a.respond(c, "application/yaml", openapiYAML)
	return nil
}

// clusterStatus is GET /v1/cluster.
type clusterStatus struct {
	Node        string   `json:"node"`
	Cluster     string   `json:"cluster"`
	Epoch       uint64   `json:"epoch"`
	Fingerprint string   `json:"fingerprint"`
	ViewID      string   `json:"view_id"`
	CutOff      bool     `json:"cut_off"`
	Sync        string   `json:"sync"`
	Electors    []string `json:"electors"`
	Members     []member `json:"members"`
}

type member struct {
	ID          string    `json:"id"`
	URL         string    `json:"url"`
	Incarnation string    `json:"incarnation"`
	State       string    `json:"state"`
	Since       time.Time `json:"since"`
	Reason      string    `json:"reason,omitempty"`
	Weight      int       `json:"weight"`
	Share       float64   `json:"share"`
}

func (a *API) showCluster(c *gin.Context, _ cache.Key) error {
	v, members := a.peers.View(), a.peers.Members()
	out := clusterStatus{
		Node: a.node, Cluster: a.clusterName, Epoch: v.Number, Fingerprint: v.Fingerprint,
		// A text: many readers of JSON round numbers of 64 bits.
		ViewID: strconv.FormatUint(v.ID, 16),
		// A static list is chosen by nobody: there is nothing to be cut off
		// from, and nothing to hand over.
		Sync: "finished", Electors: []string{}, Members: make([]member, 0, len(members)),
	}
	for i := range members {
		m := &members[i]
		out.Members = append(out.Members, member{
			ID: m.ID, URL: m.URL, Incarnation: strconv.FormatUint(m.Incarnation, 16),
			State: m.State, Since: m.Since, Reason: m.Reason, Weight: m.Weight, Share: v.Share(m.ID),
		})
	}
	return a.respondJSON(c, out)
}

func (a *API) explain(c *gin.Context, key cache.Key) error {
	if err := a.cluster.CheckKey(key); err != nil {
		return err
	}
	return a.respondJSON(c, a.cluster.Explain(c.Request.Context(), key))
}

func (a *API) stats(c *gin.Context, _ cache.Key) error {
	return a.respondJSON(c, a.cluster.Stats())
}

// link hands the connection over to package peers.
func (a *API) link(c *gin.Context, _ cache.Key) error {
	err := a.peers.Accept(c.Writer, c.Request)
	if errors.Is(err, peers.ErrNoUpgrade) {
		h := c.Writer.Header()
		h["Upgrade"] = []string{peers.UpgradeName}
		h["Connection"] = []string{"Upgrade"}
		return errNoUpgrade
	}
	return err
}
