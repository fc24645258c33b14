package cluster_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/cluster"
	"kring/membership"
	"kring/peers"
)

// A call in another view than this node's is not acted on: another node may act for its
// key there.
func TestACallOfAnotherViewIsNotActedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		for _, key := range []string{s.mine(), owned(t, s.first, "n2")} {
			for op, name := range map[cache.Op]string{cache.OpGet: "get", cache.OpPut: "put", cache.OpDelete: "delete"} {
				for hop := uint8(1); hop <= 2; hop++ {
					in := inbound(op, kv(key))
					in.View, in.Hop = 2, hop
					var reply peers.Reply
					if s.Stored(in, &reply) {
						t.Errorf("a %s, hop %d, was answered at once: %+v", name, hop, reply)
					}
					if r := s.Answer(t.Context(), in); !r.NotOwner || r.Counted || r.Answer.Entry != nil {
						t.Errorf("a %s, hop %d: %+v", name, hop, r)
					}
				}
			}
		}
		if n := len(s.peers.calls()); n != 0 {
			t.Errorf("%d were passed on", n)
		}
		in := inbound(peers.OpGetMany, kv(""))
		in.View, in.Keys = 2, []string{s.mine(), s.mine()}
		var reply peers.Reply
		if !s.Stored(in, &reply) || len(reply.Many) != 2 || reply.Many[0].Kind != cache.KindNone || reply.Many[1].Kind != cache.KindNone {
			t.Errorf("a batch: %+v", reply.Many)
		}
	})
}

// changing is a Peers whose view changes while a batch is answered.
type changing struct {
	*peers.Peers
	views *fake
}

func (c changing) View() *membership.View { return c.views.View() }

// The view of a node changes while it answers many gets. It answers those that it has
// routed in the caller's view.
func TestManyGetsOverTwoViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := &fake{}
		c := start(t, 2, func(i int, o *options) {
			if i == 1 {
				o.seenBy = func(p *peers.Peers) cluster.Peers {
					views.sees(p.View())
					return changing{p, views}
				}
			}
		})
		keys := []string{c.key(0, 1), c.key(1, 1), c.key(2, 1)}
		first := c.nodes[1].peers.View()
		next := *first
		next.Number = 2
		views.sees(first, first, &next)
		getMany(t.Context(), t, c.nodes[0].Cluster, "kv", keys, time.Minute)
		if n := c.nodes[1].Stats().Served; n != 2 {
			t.Errorf("%d gets were answered, two were routed in the view of the caller", n)
		}
		views.sees(first)
	})
}

func TestStoredAnswersAtOnceOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		mine := s.mine()
		wants := func(what string, key cache.Key, want cache.Kind) {
			t.Helper()
			var r peers.Reply
			ok := s.Stored(inbound(cache.OpGet, key), &r)
			if ok != (want != cache.KindNone) || r.Counted != ok || r.Answer.Kind != want || ok && (r.Answer.Entry == nil || r.Answer.Node != "n0") {
				t.Errorf("%s: %v, %+v", what, ok, r)
			}
			s.Delivered(r.Answer.Kind, true)
		}
		wants("unknown group", cache.Key{Group: "nope", Key: mine}, cache.KindNone)
		wants("not stored", doc(mine), cache.KindNone)
		wants("nothing was put", kv(mine), cache.KindHit)
		wants("another node's", kv(s.theirs()), cache.KindNone)
		if _, err := s.Get(t.Context(), doc(mine), false); err != nil {
			t.Fatal(err)
		}
		wants("fresh", doc(mine), cache.KindHit)
		var r peers.Reply
		for _, op := range []cache.Op{cache.OpPut, cache.OpDelete, peers.OpCopy, peers.OpPurge, peers.OpPurgeTags} {
			if s.Stored(inbound(op, doc(mine)), &r) {
				t.Errorf("operation %d was answered by the reader", op)
			}
		}
		if n := s.Stats().Served; n != 2 {
			t.Errorf("served %d", n)
		}
		many := inbound(peers.OpGetMany, cache.Key{Group: "nope"})
		many.Keys = []string{mine}
		if !s.Stored(many, &r) || len(r.Many) != 1 || r.Many[0].Kind != cache.KindNone {
			t.Errorf("many gets of an unknown group: %+v", r)
		}
	})
}

func TestCallsThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t, func(o *cache.Options) {
			o.Groups[1].CheckKey = func(string) error { return cache.ErrBadKey }
		})
		for _, op := range []cache.Op{cache.OpGet, cache.OpPut, cache.OpDelete} {
			for key, want := range map[cache.Key]error{kv(s.mine()): cache.ErrBadKey, {Group: "nope", Key: s.mine()}: cache.ErrUnknownGroup} {
				if r := s.Answer(t.Context(), inbound(op, key)); !errors.Is(r.Err, want) || r.Counted || r.Answer.Node != "n0" {
					t.Errorf("operation %d: %+v, want %v", op, r, want)
				}
			}
		}
		if r := s.Answer(t.Context(), inbound(peers.OpCopy, doc(s.mine()))); r.Err != nil || r.Copy != nil {
			t.Errorf("a copy of nothing: %+v", r)
		}
	})
}

func TestACallIsAnsweredAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key := doc(s.mine())
		only := inbound(cache.OpGet, key)
		only.OnlyIfCached = true
		r := s.Answer(t.Context(), only)
		if !errors.Is(r.Err, cache.ErrNotCached) || !r.Counted || r.Answer.Kind != cache.KindRefused {
			t.Errorf("%+v", r)
		}
		s.Delivered(r.Answer.Kind, true)
		r = s.Answer(t.Context(), inbound(cache.OpGet, key))
		if r.Err != nil || !r.Counted || r.Answer.Kind != cache.KindLoad {
			t.Errorf("%+v", r)
		}
		s.Delivered(r.Answer.Kind, false) // its load is nobody's
		// A get that the caller cancels is on no books, and its load is nobody's.
		release := s.origin.hang(key.Key)
		s.Answer(t.Context(), inbound(cache.OpDelete, key))
		ctx, cancel := context.WithCancel(t.Context())
		later(cancel)
		if r := s.Answer(ctx, inbound(cache.OpGet, key)); !errors.Is(r.Err, context.Canceled) || r.Counted {
			t.Errorf("%+v", r)
		}
		release()
		synctest.Wait()
		if b := s.Stats(); b.Served != 1 || b.ServedRefused != 1 || b.Refreshes != 2 {
			t.Errorf("served %d, %d refreshes", b.Served, b.Refreshes)
		}
	})
}

// The error of a load crosses to another node with its detail, also when the cause is a
// deadline of the origin.
func TestTheErrorOfALoadKeepsItsDetail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, 2)
		key := c.key(0, 1)
		c.origin.answers(func(context.Context, *cache.Load) (cache.Loaded, error) {
			return cache.Loaded{}, cache.ErrOriginTimeout.With("endpoint a did not answer in time").Because(context.DeadlineExceeded)
		})
		for i := range c.nodes {
			_, err := c.get(t.Context(), i, key)
			var known *cache.Error
			if !errors.As(err, &known) || known.Code != cache.ErrOriginTimeout.Code || known.Detail != "endpoint a did not answer in time" {
				t.Errorf("at n%d: %v", i, err)
			}
		}
	})
}

// Another node's write that was given up, or whose time has passed, changes nothing: it
// may have been carried out elsewhere long ago.
func TestAnothersWriteWithAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key := s.mine()
		if _, err := s.Put(t.Context(), &cache.Request{Key: kv(key), Value: []byte("newer")}); err != nil {
			t.Fatal(err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-time.After(2 * time.Second)
		for _, op := range []cache.Op{cache.OpPut, cache.OpDelete, peers.OpPurge, peers.OpPurgeTags} {
			in := inbound(op, kv(key))
			in.Tags = []string{"t"}
			if r := s.Answer(cancelled, in); !errors.Is(r.Err, context.Canceled) {
				t.Errorf("operation %d, cancelled: %v", op, r.Err)
			}
			if r := s.Answer(late, in); !errors.Is(r.Err, cache.ErrWriteUnconfirmed) {
				t.Errorf("operation %d, too late: %v", op, r.Err)
			}
		}
		if a, err := s.Get(t.Context(), kv(key), false); err != nil || string(a.Entry.Value) != "newer" {
			t.Errorf("%+v, %v", a, err)
		}
		// Refused is not done: the same write with time left is carried out.
		if r := s.Answer(t.Context(), inbound(cache.OpDelete, kv(key))); r.Err != nil {
			t.Error(r.Err)
		}
		if n := s.Stats().Entries; n != 0 {
			t.Errorf("%d entries", n)
		}
	})
}
