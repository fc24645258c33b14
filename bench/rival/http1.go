package rival

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"kring/cache"
	"kring/consistenthash"
	"kring/httpapi"
	"kring/membership"
	"kring/peers"
)

// callPath is in front of group and key in the path of a call between nodes.
const callPath = "/call/"

// Headers of a call's answer, besides HTTP's own.
const (
	headerKind = "Call-Kind"
	headerAge  = "Call-Age" // nanoseconds
	headerTTL  = "Call-TTL" // nanoseconds
)

// tunedTransport keeps as many idle connections as there are requests in
// flight. The default of two for each host would close most connections after
// one request.
func tunedTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
		WriteBufferSize:     8 << 10,
		ReadBufferSize:      8 << 10,
	}
}

// http1Router is a cache.Router that calls the owner with an ordinary HTTP/1.1
// request, one at a time on each connection. It supports only gets.
type http1Router struct {
	self   string
	ring   *consistenthash.Map
	urls   map[string]string
	client *http.Client
}

// newHTTP1Node is Kring's node in everything except the call between the nodes:
// its server and listener with their limits, its API, its cache, its ring.
func newHTTP1Node(o Options) (*server, error) {
	number, err := o.number()
	if err != nil {
		return nil, err
	}
	router := &http1Router{
		self: nodeName(number), ring: consistenthash.New(membership.DefaultConfig().VirtualNodes, nil),
		urls: map[string]string{}, client: &http.Client{Transport: tunedTransport()},
	}
	for i, p := range o.Peers {
		router.ring.Add(nodeName(i + 1))
		router.urls[nodeName(i+1)] = "http://" + p
	}
	c, err := newCache(o, router)
	if err != nil {
		return nil, err
	}
	// The API needs peers, which it shows to operators.
	alone, err := peers.New(peers.Options{Self: membership.Member{ID: router.self, URL: "http://" + o.Listen}, Config: membership.DefaultConfig()})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	alone.Start(c)
	api, err := httpapi.New(httpapi.Options{
		Node: router.self, Version: "bench", Cluster: "bench", Cache: c, Peers: alone, Limits: httpapi.DefaultLimits(),
		Log: slog.New(slog.DiscardHandler),
	})
	stop := func() error { return errors.Join(alone.Close(), c.Close()) }
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	front, calls := api.Handler(), serveCalls(c)
	node := api.Server()
	node.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, callPath) {
			calls(w, r)
			return
		}
		front.ServeHTTP(w, r)
	})
	return &server{Server: node, listener: api.Listener, stop: stop}, nil
}

func (t *http1Router) Acts(key string) (uint64, bool) { return 0, t.ring.Get(key) == t.self }

func (t *http1Router) Forward(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	if req.Op != cache.OpGet {
		return cache.Answer{}, cache.ErrInternal.With("this variant passes on gets only")
	}
	owner := t.ring.Get(req.Key.Key)
	call, err := http.NewRequestWithContext(ctx, http.MethodGet, t.urls[owner]+callPath+req.Key.Group+"/"+url.PathEscape(req.Key.Key), nil)
	if err != nil {
		return cache.Answer{}, cache.ErrInternal.Because(err)
	}
	res, err := t.client.Do(call)
	if err != nil {
		return cache.Answer{}, cache.ErrOriginTimeout.Because(err)
	}
	a, err := readAnswer(res, owner)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return cache.Answer{}, cache.ErrInternal.Because(err)
	}
	return a, nil
}

func readAnswer(res *http.Response, owner string) (cache.Answer, error) {
	if res.StatusCode != http.StatusOK || res.ContentLength < 0 {
		return cache.Answer{}, fmt.Errorf("%s answered %s, %d bytes", owner, res.Status, res.ContentLength)
	}
	e := &cache.Entry{
		Value: make([]byte, res.ContentLength), ContentType: res.Header.Get("Content-Type"), ETag: res.Header.Get("ETag"),
	}
	if _, err := io.ReadFull(res.Body, e.Value); err != nil {
		return cache.Answer{}, err
	}
	kind, err := strconv.ParseUint(res.Header.Get(headerKind), 10, 8)
	if err != nil {
		return cache.Answer{}, err
	}
	age, err := strconv.ParseInt(res.Header.Get(headerAge), 10, 64)
	if err != nil {
		return cache.Answer{}, err
	}
	ttl, err := strconv.ParseInt(res.Header.Get(headerTTL), 10, 64)
	if err != nil {
		return cache.Answer{}, err
	}
	e.Born, e.TTL = time.Now().Add(-time.Duration(age)), time.Duration(ttl)
	return cache.Answer{Entry: e, Kind: cache.KindPeer, Node: owner, OwnerKind: cache.Kind(kind)}, nil
}

// serveCalls answers the other nodes' calls. It is not behind Gin, and so a
// little cheaper than a route of the API.
func serveCalls(c *cache.Cache) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		group, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, callPath), "/")
		a, err := c.Serve(r.Context(), &cache.Request{Op: cache.OpGet, Key: cache.Key{Group: group, Key: key}})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		e, h := a.Entry, w.Header()
		h["Content-Type"] = []string{e.ContentType}
		h["Content-Length"] = []string{strconv.Itoa(len(e.Value))}
		h["Etag"] = []string{e.ETag}
		h[headerKind] = []string{strconv.Itoa(int(a.Kind))}
		h[headerAge] = []string{strconv.FormatInt(int64(e.Age(time.Now())), 10)}
		h[headerTTL] = []string{strconv.FormatInt(int64(e.TTL), 10)}
		_, err = w.Write(e.Value)
		c.Settle(a.Kind, err == nil)
	}
}
