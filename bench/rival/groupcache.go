package rival

import (
	"context"
	"net/http"
	"strings"

	"github.com/golang/groupcache"
	"github.com/golang/groupcache/groupcachepb"
)

// headerOwner says whether the node owns the key: "self" or "peer".
const headerOwner = "Bench-Owner"

// newDefaultGroupcache calls its peers with groupcache's default,
// http.DefaultTransport, which keeps two idle connections to each host.
func newDefaultGroupcache(o Options) (*server, error) {
	return newGroupcache(o, nil)
}

// newTunedGroupcache keeps more connections to its peers.
func newTunedGroupcache(o Options) (*server, error) {
	t := tunedTransport()
	return newGroupcache(o, func(context.Context) http.RoundTripper { return t })
}

// newGroupcache is golang/groupcache's HTTPPool with a front that serves its
// values. The front calls a key's owner itself. This bypasses the hot cache, in
// which groupcache keeps every tenth answer of another node: here it would have
// room for all, and the call between the nodes, which the bench measures, would
// hardly ever happen.
func newGroupcache(o Options, transport func(context.Context) http.RoundTripper) (*server, error) {
	self := "http://" + o.Listen
	pool := groupcache.NewHTTPPoolOpts(self, nil)
	pool.Transport = transport
	urls := []string{self}
	if len(o.Peers) > 0 {
		urls = nil
		for _, p := range o.Peers {
			urls = append(urls, "http://"+p)
		}
	}
	pool.Set(urls...)
	origin := newSource(o)
	group := groupcache.NewGroup(Group, o.budget(), groupcache.GetterFunc(
		func(ctx context.Context, key string, dest groupcache.Sink) error {
			value, err := origin.value(ctx, key)
			if err != nil {
				return err
			}
			return dest.SetBytes(value)
		}))
	return bare(func(w http.ResponseWriter, r *http.Request) {
		key, ok := strings.CutPrefix(r.URL.Path, Prefix)
		if !ok {
			pool.ServeHTTP(w, r)
			return
		}
		var value []byte
		var err error
		owner := "self"
		if peer, ok := pool.PickPeer(key); ok {
			owner = "peer"
			name := Group
			var out groupcachepb.GetResponse
			err = peer.Get(r.Context(), &groupcachepb.GetRequest{Group: &name, Key: &key}, &out)
			value = out.GetValue()
		} else {
			err = group.Get(r.Context(), key, groupcache.AllocatingByteSliceSink(&value))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header()["Content-Type"] = []string{"text/plain"}
		w.Header()[headerOwner] = []string{owner}
		if _, err := w.Write(value); err != nil {
			panic(http.ErrAbortHandler) // the caller has left
		}
	}, nil), nil
}
