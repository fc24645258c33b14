package httpapi_test

import (
	"context"
	"testing"

	"kring/cache"
	"kring/membership"
	"kring/peers"
)

// elsewhere is a cluster of which other nodes act for every key, with a function in
// place of the calls to them.
type elsewhere struct {
	*peers.Peers // never started
	view         *membership.View
	call         func(ctx context.Context, req *peers.Request) (peers.Reply, error)
}

// actsElsewhere has every request answered by call.
func actsElsewhere(t testing.TB, call func(ctx context.Context, req *peers.Request) (peers.Reply, error)) func(*setup) {
	t.Helper()
	cfg := membership.DefaultConfig()
	cfg.Peers = []string{"kring-2=http://127.0.0.1:8002", "kring-3=http://127.0.0.1:8003"}
	view, err := membership.StaticView(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, err := peers.New(peers.Options{
		Self: membership.Member{ID: testNode, URL: "http://127.0.0.1:8001", Weight: 1}, Config: membership.DefaultConfig(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *setup) { c.elsewhere = &elsewhere{Peers: p, view: view, call: call} }
}

func (e *elsewhere) View() *membership.View { return e.view }

func (e *elsewhere) Others() []string { return []string{"kring-2", "kring-3"} }

func (e *elsewhere) Down(context.Context, string) (open, gone bool) { return false, false }

func (e *elsewhere) Begin(context.Context, string, *peers.Request) (peers.Pending, bool) {
	return peers.Pending{}, false
}

func (e *elsewhere) Call(ctx context.Context, _ string, req *peers.Request) (peers.Reply, error) {
	return e.call(ctx, req)
}

// answering makes every get a hit at kring-2, or an error; it confirms no purge.
func answering(entry *cache.Entry, err error) func(context.Context, *peers.Request) (peers.Reply, error) {
	return func(_ context.Context, req *peers.Request) (peers.Reply, error) {
		if req.Op != cache.OpGet {
			return peers.Reply{}, cache.ErrWriteUnconfirmed
		}
		return peers.Reply{Answer: cache.Answer{Entry: entry, Node: "kring-2", Kind: cache.KindHit}, Err: err, Counted: true}, nil
	}
}
