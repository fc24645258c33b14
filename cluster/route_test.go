package cluster_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/membership"
	"kring/peers"
)

// A view that changes while a load runs: the answer does not leave, and the get is
// routed anew.
func TestAGetIsRoutedAnewWhenItsViewHasChanged(t *testing.T) {
	for name, test := range map[string]struct {
		heavy int // owns the key in the next view
		node  string
		kind  cache.Kind
	}{
		"this node acts again": {0, "n0", cache.KindHit}, // the load has stored the value
		"another node acts":    {1, "n1", cache.KindPeer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := alone(t)
				next := view(t, 2, test.heavy)
				key := ownedByBoth(t, s.first, "n0", next, test.node)
				s.replies(peers.Reply{Answer: cache.Answer{Kind: cache.KindHit, Node: "n1", Entry: &cache.Entry{Value: []byte("theirs")}}, Counted: true}, nil)
				release := s.origin.hang(key)
				later(func() { s.peers.sees(next); release() })
				a, err := s.Get(t.Context(), doc(key), false)
				if err != nil || a.Node != test.node || a.Kind != test.kind {
					t.Errorf("%+v, %v", a, err)
				}
				if b := s.Stats(); b.Gets != 1 || b.Loads != 0 || b.Refreshes != 1 || b.Abandoned != 0 {
					t.Errorf("%+v, abandoned %d", b.Reads, b.Abandoned)
				}
			})
		})
	}
}

// ownedByBoth is a key that one member owns in one view, and another one in the next.
func ownedByBoth(t testing.TB, a *membership.View, inA string, b *membership.View, inB string) string {
	t.Helper()
	for _, key := range numbered("moved-", 100_000) {
		if a.Ring.Get(key) == inA && b.Ring.Get(key) == inB {
			return key
		}
	}
	t.Fatal("no such key")
	return ""
}

// Another node's get is answered "not owner" when the view has changed meanwhile. Its
// load is nobody's then.
func TestAnAnswerDoesNotLeaveWhenItsViewHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key := s.mine()
		release := s.origin.hang(key)
		later(func() { s.peers.sees(view(t, 2, 0)); release() })
		if r := s.Answer(t.Context(), inbound(cache.OpGet, doc(key))); !r.NotOwner || r.Counted || r.Answer.Entry != nil {
			t.Errorf("%+v", r)
		}
		if b := s.Stats(); b.Served != 0 || b.Refreshes != 1 {
			t.Errorf("served %d, %d refreshes", b.Served, b.Refreshes)
		}
	})
}

// The view changes between a write's route and its commit. A client's write is routed
// anew; another node is told "not owner", and goes on with the same id.
func TestAWriteWhoseViewHasChangedIsRoutedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key, next := kv(s.mine()), view(t, 2, 0)
		s.peers.sees(s.first, next)
		in := inbound(cache.OpPut, key)
		if r := s.Answer(t.Context(), in); !r.NotOwner || r.Err != nil {
			t.Errorf("another node's put: %+v", r)
		}
		if n := s.Stats().Entries; n != 0 {
			t.Errorf("%d entries", n)
		}
		in.View = 2
		if r := s.Answer(t.Context(), in); r.Err != nil || !r.Answer.Created {
			t.Errorf("in the new view: %+v", r)
		}
		s.peers.sees(s.first, next)
		if a, err := s.Put(t.Context(), &cache.Request{Key: kv(s.mine()), Value: []byte("v"), ID: 1}); err != nil || a.Node != "n0" {
			t.Errorf("a put: %+v, %v", a, err)
		}
	})
}

// All nodes say "not owner", and by this node's own view another one acts. This node
// answers, and keeps nothing.
func TestANodeThatMustActWithoutOwningTheKeyStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key := s.theirs()
		s.replies(peers.Reply{NotOwner: true}, nil)
		a, err := s.Get(t.Context(), doc(key), false)
		if err != nil || a.Kind != cache.KindLoad || a.Stored || !a.StandIn || a.Node != "n0" || string(a.Entry.Value) != key+"#1" {
			t.Errorf("%+v, %v", a, err)
		}
		if a, err := s.Get(t.Context(), doc(key), false); err != nil || a.Kind != cache.KindLoad || string(a.Entry.Value) != key+"#2" {
			t.Errorf("%+v, %v", a, err)
		}
		if _, err := s.Put(t.Context(), &cache.Request{Key: kv(key)}); !errors.Is(err, cache.ErrWriteUnconfirmed) {
			t.Errorf("put: %v", err)
		}
		if err := s.Delete(t.Context(), kv(key)); !errors.Is(err, cache.ErrWriteUnconfirmed) {
			t.Errorf("delete: %v", err)
		}
		if b := s.Stats(); b.Entries != 0 || b.NotOwner != 8 || b.Loads != 2 || b.Peer != 0 || b.Abandoned != 0 {
			t.Errorf("%d entries, %d times not owner, abandoned %d: %+v", b.Entries, b.NotOwner, b.Abandoned, b.Reads)
		}
	})
}

func TestARequestIsRoutedAnewAfterOneNotOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		next := view(t, 2, 2)
		key := ownedByBoth(t, s.first, "n1", next, "n2")
		s.peers.call = func(_ context.Context, member string, _ *peers.Request) (peers.Reply, error) {
			if member == "n1" {
				s.peers.sees(next)
				return peers.Reply{NotOwner: true}, nil
			}
			return peers.Reply{Answer: cache.Answer{Kind: cache.KindHit, Node: member, Entry: &cache.Entry{}}, Counted: true}, nil
		}
		if a, err := s.Get(t.Context(), doc(key), false); err != nil || a.Node != "n2" || s.Stats().NotOwner != 1 {
			t.Errorf("%+v, %v, %d times not owner", a, err, s.Stats().NotOwner)
		}
		// In the view after that one this node acts.
		last := view(t, 3, 0)
		key = ownedByBoth(t, s.first, "n1", last, "n0")
		s.peers.sees(s.first)
		s.peers.call = func(context.Context, string, *peers.Request) (peers.Reply, error) {
			s.peers.sees(last)
			return peers.Reply{NotOwner: true}, nil
		}
		if a, err := s.Get(t.Context(), doc(key), false); err != nil || a.Node != "n0" || !a.Stored {
			t.Errorf("%+v, %v", a, err)
		}
		s.peers.sees(s.first)
		if a, err := s.Put(t.Context(), &cache.Request{Key: kv(key)}); err != nil || a.Node != "n0" || !a.Stored {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

func TestACallIsMadeAgainWhenTheSharedOneEndedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		s.peers.call = func(_ context.Context, member string, _ *peers.Request) (peers.Reply, error) {
			if len(s.peers.calls()) == 1 {
				return peers.Reply{}, peers.ErrAskAgain
			}
			return peers.Reply{Answer: cache.Answer{Kind: cache.KindHit, Node: member, Entry: &cache.Entry{}}, Counted: true}, nil
		}
		if a, err := s.Get(t.Context(), doc(s.theirs()), false); err != nil || a.Node != "n1" || len(s.peers.calls()) != 2 {
			t.Errorf("%+v, %v; calls of %v", a, err, s.peers.calls())
		}
	})
}

// A member that is called, and whose link breaks under each try, is passed over by a
// get. A write ends unconfirmed.
func TestAMemberIsExcludedAfterThreeTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key := s.theirs()
		broken := noAnswer(t)
		s.peers.call = func(_ context.Context, member string, _ *peers.Request) (peers.Reply, error) {
			if member == "n1" {
				return peers.Reply{}, broken
			}
			return peers.Reply{Answer: cache.Answer{Kind: cache.KindHit, Node: member, Entry: &cache.Entry{}}, Counted: true}, nil
		}
		a, err := s.Get(t.Context(), doc(key), false)
		if want := []string{"n1", "n1", "n1", "n2"}; err != nil || a.Node != "n2" || !slices.Equal(s.peers.calls(), want) {
			t.Errorf("%+v, %v; calls of %v", a, err, s.peers.calls())
		}
		s.peers.called = nil
		if _, err := s.Put(t.Context(), &cache.Request{Key: kv(key)}); !errors.Is(err, cache.ErrWriteUnconfirmed) || !slices.Equal(s.peers.calls(), []string{"n1", "n1", "n1"}) {
			t.Errorf("a put: %v; calls of %v", err, s.peers.calls())
		}
		s.peers.called = nil
		s.replies(peers.Reply{}, broken)
		if a, err := s.Get(t.Context(), doc(key), false); err != nil || a.Node != "n0" || a.Stored || len(s.peers.calls()) != 6 {
			t.Errorf("nobody answers: %+v, %v; calls of %v", a, err, s.peers.calls())
		}
	})
}

func TestATryThatFailsWhenTheTimeIsUpIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		broken := noAnswer(t)
		for _, cancels := range []bool{false, true} {
			for _, failure := range []error{broken, nil} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				s.peers.called = nil
				s.peers.call = func(ctx context.Context, _ string, _ *peers.Request) (peers.Reply, error) {
					if cancels {
						cancel()
					}
					<-ctx.Done()
					if failure != nil {
						return peers.Reply{}, failure
					}
					return peers.Reply{}, ctx.Err()
				}
				get, put := error(cache.ErrOriginTimeout), error(cache.ErrWriteUnconfirmed)
				if cancels {
					get, put = context.Canceled, context.Canceled
				}
				if _, err := s.Get(ctx, doc(s.theirs()), false); !errors.Is(err, get) {
					t.Errorf("a get: %v, want %v", err, get)
				}
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				if _, err := s.Put(ctx, &cache.Request{Key: kv(s.theirs())}); !errors.Is(err, put) {
					t.Errorf("a put: %v, want %v", err, put)
				}
				cancel()
				if n := len(s.peers.calls()); n != 2 {
					t.Errorf("%d calls", n)
				}
			}
		}
		if b := s.Stats(); b.Peer != 4 || b.Abandoned != 4 {
			t.Errorf("peer %d, abandoned %d", b.Peer, b.Abandoned)
		}
	})
}

// The member whose call is to be passed on is the one that acts, by this node's view.
func TestACallIsNotPassedBackToItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		broken := noAnswer(t)
		s.replies(peers.Reply{}, broken)
		for name, test := range map[string]struct {
			key    string
			calls  int
			passed uint64
		}{
			"it owns the key":                        {owned(t, s.first, "n1"), 0, 0},
			"it is next to an owner without answer":  {owned(t, s.first, "n2", "n1", "n0"), 3, 1},
			"this node is next, and not by its view": {owned(t, s.first, "n2", "n0", "n1"), 3, 1},
		} {
			s.peers.called = nil
			before := s.Stats().PassedOn
			if r := s.Answer(t.Context(), inbound(cache.OpGet, doc(test.key))); !r.NotOwner || r.Counted || r.Err != nil {
				t.Errorf("%s: %+v", name, r)
			}
			if n := len(s.peers.calls()); n != test.calls || s.Stats().PassedOn-before != test.passed {
				t.Errorf("%s: calls of %v, %d passed on", name, s.peers.calls(), s.Stats().PassedOn-before)
			}
		}
		// A second hop is not passed on, and no call in another view is.
		in := inbound(cache.OpGet, doc(owned(t, s.first, "n2")))
		in.Hop = 2
		s.peers.called = nil
		if r := s.Answer(t.Context(), in); !r.NotOwner || len(s.peers.calls()) != 0 {
			t.Errorf("a second hop: %+v, calls of %v", r, s.peers.calls())
		}
		if s.origin.requests() != 0 {
			t.Errorf("%d loads", s.origin.requests())
		}
	})
}

func TestACallIsPassedOnAsASecondHop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key := owned(t, s.first, "n2")
		s.peers.call = func(_ context.Context, member string, req *peers.Request) (peers.Reply, error) {
			if req.Hop != 2 || req.ID != 1 || member != "n2" {
				t.Errorf("%s was called with %+v", member, req)
			}
			return peers.Reply{Answer: cache.Answer{Kind: cache.KindHit, Node: "n2", Entry: &cache.Entry{}}, Counted: true}, nil
		}
		if r := s.Answer(t.Context(), inbound(cache.OpGet, doc(key))); r.Err != nil || !r.PassedOn || !r.Counted || r.Answer.Node != "n2" {
			t.Errorf("%+v", r)
		}
		s.replies(peers.Reply{}, cache.ErrValueTooLarge)
		if r := s.Answer(t.Context(), inbound(cache.OpPut, kv(key))); !errors.Is(r.Err, cache.ErrValueTooLarge) {
			t.Errorf("%+v", r)
		}
		s.replies(peers.Reply{NotOwner: true}, nil)
		if r := s.Answer(t.Context(), inbound(cache.OpGet, doc(key))); !r.NotOwner || len(s.peers.calls()) != 3 || s.Stats().NotOwner != 0 {
			t.Errorf("%+v, calls of %v", r, s.peers.calls())
		}
		// The view changes while the call is passed on: this node acts now.
		broken, next := noAnswer(t), view(t, 2, 0)
		key = ownedByBoth(t, s.first, "n2", next, "n0")
		s.peers.call = func(context.Context, string, *peers.Request) (peers.Reply, error) {
			s.peers.sees(next)
			return peers.Reply{}, broken
		}
		if r := s.Answer(t.Context(), inbound(cache.OpPut, kv(key))); r.Err != nil || r.NotOwner || !r.Answer.Created || s.Stats().Entries != 1 {
			t.Errorf("%+v", r)
		}
	})
}
