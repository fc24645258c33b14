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
	"kring/cluster"
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

// http1Peers call the owner with an ordinary HTTP/1.1 request, one at a time on each
// connection. They support only gets, and take all members for alive.
type http1Peers struct {
	*peers.Peers // never started
	urls         map[string]string
	client       *http.Client
}

// newHTTP1Node is Kring's node in everything except the call between the nodes:
// its server and listener with their limits, its API, its cache, its ring.
func newHTTP1Node(o Options) (*server, error) {
	number, err := o.number()
	if err != nil {
		return nil, err
	}
	p := &http1Peers{urls: map[string]string{}, client: &http.Client{Transport: tunedTransport()}}
	members := membership.DefaultConfig()
	for i, host := range o.Peers {
		p.urls[nodeName(i+1)] = "http://" + host
		members.Peers = append(members.Peers, nodeName(i+1)+"=http://"+host)
	}
	p.Peers, err = peers.New(peers.Options{
		Self: membership.Member{ID: nodeName(number)}, Config: members,
		Dial: func(context.Context, string) (net.Conn, error) { return nil, errors.New("this variant has no links") },
	})
	if err != nil {
		return nil, err
	}
	c, err := newCache(o)
	if err != nil {
		return nil, err
	}
	cl := cluster.New(c, p)
	api, err := httpapi.New(httpapi.Options{
		Node: p.Self(), Version: "bench", ClusterName: "bench", Cluster: cl, Peers: p.Peers, Limits: httpapi.DefaultLimits(),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	front, calls := api.Handler(), serveCalls(cl)
	node := api.Server()
	node.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, callPath) {
			calls(w, r)
			return
		}
		front.ServeHTTP(w, r)
	})
	return &server{Server: node, listener: api.Listener, stop: c.Close}, nil
}

// Begin begins no call for many keys: each is a call of its own.
func (p *http1Peers) Begin(context.Context, string, *peers.Request) (peers.Pending, bool) {
	return peers.Pending{}, false
}

// Call is one call to the owner.
func (p *http1Peers) Call(ctx context.Context, owner string, req *peers.Request) (peers.Reply, error) {
	if req.Op != cache.OpGet {
		return peers.Reply{}, cache.ErrInternal.With("this variant passes on gets only")
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodGet, p.urls[owner]+callPath+req.Key.Group+"/"+url.PathEscape(req.Key.Key), nil)
	if err != nil {
		return peers.Reply{}, cache.ErrInternal.Because(err)
	}
	res, err := p.client.Do(call)
	if err != nil {
		return peers.Reply{}, cache.ErrOriginTimeout.Because(err)
	}
	a, err := readAnswer(res, owner)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return peers.Reply{}, cache.ErrInternal.Because(err)
	}
	return peers.Reply{Answer: a, Counted: true}, nil
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
	e.Born = time.Now().Add(-time.Duration(age))
	if ttl > 0 {
		e.Expires = e.Born.Add(time.Duration(ttl))
	}
	return cache.Answer{Entry: e, Kind: cache.Kind(kind), Node: owner}, nil
}

// serveCalls answers the other nodes' calls. It is not behind Gin, and so a
// little cheaper than a route of the API.
func serveCalls(c *cluster.Cluster) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		group, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, callPath), "/")
		in := &peers.Inbound{View: 1, Request: peers.Request{Request: cache.Request{Op: cache.OpGet, Key: cache.Key{Group: group, Key: key}}, Hop: 2}}
		var reply peers.Reply
		if !c.Stored(in, &reply) {
			reply = c.Answer(r.Context(), in)
		}
		if reply.Err != nil || reply.NotOwner {
			http.Error(w, fmt.Sprint("not answered: ", reply.Err), http.StatusBadGateway)
			return
		}
		e, h := reply.Answer.Entry, w.Header()
		ttl := time.Duration(0) // for ever
		if !e.Forever() {
			ttl = e.TTL()
		}
		h["Content-Type"] = []string{e.ContentType}
		h["Content-Length"] = []string{strconv.Itoa(len(e.Value))}
		h["Etag"] = []string{e.ETag}
		h[headerKind] = []string{strconv.Itoa(int(reply.Answer.Kind))}
		h[headerAge] = []string{strconv.FormatInt(int64(e.Age(time.Now())), 10)}
		h[headerTTL] = []string{strconv.FormatInt(int64(ttl), 10)}
		_, err := w.Write(e.Value)
		c.Delivered(reply.Answer.Kind, err == nil)
	}
}
