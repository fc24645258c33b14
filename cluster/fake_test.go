package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/cluster"
	"kring/membership"
	"kring/peers"
)

// maxFakeCalls is how many calls a fake answers: a request that is tried again and
// again fails.
const maxFakeCalls = 1000

// fake is the Peers of n0 in a cluster of three. It is never started: a function
// answers its calls, and all circuits are closed.
type fake struct {
	*peers.Peers
	call func(ctx context.Context, member string, req *peers.Request) (peers.Reply, error)

	mu     sync.Mutex // guards all below
	called []string   // members, in turn
	views  []*membership.View
}

func (f *fake) Call(ctx context.Context, member string, req *peers.Request) (peers.Reply, error) {
	f.mu.Lock()
	f.called = append(f.called, member)
	calls := len(f.called)
	f.mu.Unlock()
	switch {
	case f.call == nil:
		return peers.Reply{}, errors.New("a call that is not expected")
	case calls > maxFakeCalls:
		return peers.Reply{}, errors.New("calls without end")
	}
	return f.call(ctx, member, req)
}

// Begin has no link.
func (f *fake) Begin(context.Context, string, *peers.Request) (peers.Pending, bool) {
	return peers.Pending{}, false
}

// View is the next of the views. The last one stays.
func (f *fake) View() *membership.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.views[0]
	if len(f.views) > 1 {
		f.views = f.views[1:]
	}
	return v
}

// sees sets the views that the cluster is shown from now on.
func (f *fake) sees(views ...*membership.View) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.views = views
}

func (f *fake) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.called)
}

// config is a cluster of three, in which one member owns nearly all keys; none does if
// it is negative.
func config(heavy int) membership.Config {
	cfg := membership.DefaultConfig()
	for i := range 3 {
		cfg.Peers = append(cfg.Peers, fmt.Sprintf("n%d=http://%s", i, host(i)))
		if i == heavy {
			cfg.Peers[i] += ";weight=50"
		}
	}
	return cfg
}

// view is the view of a number, with a heavy member.
func view(t testing.TB, number uint64, heavy int) *membership.View {
	t.Helper()
	v, err := membership.StaticView(config(heavy))
	if err != nil {
		t.Fatal(err)
	}
	v.Number = number
	return v
}

// owned is a key whose owners in a view are these members.
func owned(t testing.TB, v *membership.View, owners ...string) string {
	t.Helper()
	for i := range 1_000_000 {
		if key := fmt.Sprintf("key-%d", i); slices.Equal(v.Ring.Owners(key, len(owners)), owners) {
			return key
		}
	}
	t.Fatal("no such key")
	return ""
}

// single is n0, a cluster whose peers are a fake.
type single struct {
	*cluster.Cluster
	t      testing.TB
	peers  *fake
	origin *origin
	first  *membership.View // the view in the beginning, in which all own as much
}

func alone(t testing.TB, tune ...func(o *cache.Options)) *single {
	t.Helper()
	p, err := peers.New(peers.Options{
		Self: membership.Member{ID: "n0"}, Config: config(-1),
		Dial: func(context.Context, string) (net.Conn, error) { return nil, errors.New("no network") },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &single{t: t, origin: newOrigin(), first: view(t, 1, -1), peers: &fake{Peers: p}}
	s.peers.sees(s.first)
	o := cache.Options{Node: "n0", Config: cache.DefaultConfig(), Loader: s.origin, Groups: groups()}
	for _, f := range tune {
		f(&o)
	}
	c, err := cache.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Cluster = cluster.New(c, s.peers)
	t.Cleanup(func() {
		c.Close()
		b := s.Stats()
		if sum := b.Hits + b.HotHits + b.Stale + b.Joined + b.Peer + b.Loads + b.Refused; b.Gets != sum {
			t.Errorf("%d gets, %d answers: %+v", b.Gets, sum, b.Reads)
		}
		if loads := b.Loads + b.ServedLoads + b.Refreshes; loads != uint64(s.origin.requests()) {
			t.Errorf("%d loads, the origin saw %d", loads, s.origin.requests())
		}
	})
	return s
}

// mine is a key of n0, theirs one of n1.
func (s *single) mine() string   { return owned(s.t, s.first, "n0") }
func (s *single) theirs() string { return owned(s.t, s.first, "n1", "n2", "n0") }

// inbound is a call of n1, in the first view.
func inbound(op cache.Op, key cache.Key) *peers.Inbound {
	return &peers.Inbound{From: "n1", View: 1, Request: peers.Request{Request: cache.Request{Op: op, Key: key, ID: 1}, Hop: 1}}
}

// replies answers all calls alike.
func (s *single) replies(r peers.Reply, err error) {
	s.peers.call = func(context.Context, string, *peers.Request) (peers.Reply, error) { return r, err }
}

// noAnswer is the error of a call to a node that is not there.
func noAnswer(t *testing.T) error {
	t.Helper()
	p, err := peers.New(peers.Options{
		Self: membership.Member{ID: "n0"}, Config: config(-1),
		Dial: func(context.Context, string) (net.Conn, error) { return nil, errors.New("no network") },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Start(nil)
	defer p.Close()
	_, err = p.Call(t.Context(), "n1", &peers.Request{Request: cache.Request{Op: cache.OpGet, Key: doc("k")}, Hop: 1})
	if !peers.NoAnswer(err) {
		t.Fatal("a call to nobody:", err)
	}
	return err
}

// later runs a function when all else waits.
func later(do func()) {
	go func() {
		<-time.After(time.Second)
		synctest.Wait()
		do()
	}()
}
