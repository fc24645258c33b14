package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers"
)

func TestGetThroughAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key, entry := s.theirs(), &cache.Entry{Value: []byte("theirs")}
		s.peers.call = func(_ context.Context, member string, req *peers.Request) (peers.Reply, error) {
			if member != "n1" || req.Op != cache.OpGet || req.Key != doc(key) || !req.OnlyIfCached || req.Hop != 1 || req.Waiting == nil {
				t.Errorf("%s was called with %+v", member, req)
			}
			return peers.Reply{Answer: cache.Answer{Entry: entry, Kind: cache.KindLoad, Node: "n1", Status: 200}, Counted: true}, nil
		}
		a, err := s.Get(t.Context(), doc(key), true)
		if err != nil || a.Entry != entry || a.Kind != cache.KindPeer || a.OwnerKind != cache.KindLoad || a.Node != "n1" || a.Status != 200 {
			t.Errorf("%+v, %v", a, err)
		}
		s.replies(peers.Reply{Answer: cache.Answer{Kind: cache.KindRefused, Node: "n1"}, Err: cache.ErrOverloaded, Counted: true}, nil)
		a, err = s.Get(t.Context(), doc(key), false)
		if !errors.Is(err, cache.ErrOverloaded) || a.Kind != cache.KindPeer || a.OwnerKind != cache.KindRefused || a.Node != "n1" {
			t.Errorf("%+v, %v", a, err)
		}
		if b := s.Stats(); b.Peer != 2 || b.Gets != 2 || b.Entries != 0 || b.Abandoned != 0 {
			t.Errorf("%+v, abandoned %d", b.Reads, b.Abandoned)
		}
		// An answer that is on no other node's books is abandoned here.
		s.replies(peers.Reply{Answer: cache.Answer{Node: "n1"}, Err: cache.ErrBadKey}, nil)
		if _, err := s.Get(t.Context(), doc(key), false); !errors.Is(err, cache.ErrBadKey) || s.Stats().Abandoned != 1 {
			t.Errorf("%v, abandoned %d", err, s.Stats().Abandoned)
		}
	})
}

// A caller that gets no error relies on the entry.
func TestAnAnswerWithoutAnEntryIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		s.replies(peers.Reply{Answer: cache.Answer{Kind: cache.KindHit, Node: "n1"}, Counted: true}, nil)
		a, err := s.Get(t.Context(), doc(s.theirs()), false)
		if !errors.Is(err, cache.ErrInternal) || a.Kind != cache.KindPeer || !strings.Contains(errors.Unwrap(err).Error(), "n1") {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

func TestTheBooksSayHowAGetWasSharedOrRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key, entry := doc(s.theirs()), &cache.Entry{Value: []byte("theirs")}
		for _, test := range []struct{ kind, want cache.Kind }{{cache.KindLoad, cache.KindLoad}, {cache.KindNone, cache.KindJoined}} {
			s.replies(peers.Reply{Answer: cache.Answer{Kind: test.kind, Node: "n1", Entry: entry}, Shared: true}, nil)
			if a, err := s.Get(t.Context(), key, false); err != nil || a.Kind != cache.KindJoined || a.OwnerKind != test.want || a.Node != "n1" || a.Entry != entry {
				t.Errorf("%+v, %v", a, err)
			}
		}
		s.replies(peers.Reply{}, &peers.RefusedHere{Err: cache.ErrOverloaded})
		a, err := s.Get(t.Context(), key, false)
		if !errors.Is(err, cache.ErrOverloaded) || a.Kind != cache.KindRefused || a.Node != "n0" || a.OwnerKind != cache.KindRefused {
			t.Errorf("%+v, %v", a, err)
		}
		if b := s.Stats(); b.Gets != 3 || b.Joined != 2 || b.Refused != 1 || b.Peer != 0 || b.Abandoned != 0 {
			t.Errorf("%+v, abandoned %d", b.Reads, b.Abandoned)
		}
	})
}

// A get that is told that it waits takes a place here, and gives it back at its end.
func TestAGetThatWaitsElsewhereHasAPlaceHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t, func(o *cache.Options) { o.MaxWaiters = 1 })
		key := doc(s.theirs())
		for range 3 {
			s.peers.call = func(_ context.Context, _ string, req *peers.Request) (peers.Reply, error) {
				if err := req.Waiting.Loading(1, true); err != nil {
					t.Error(err)
				}
				if err := s.full(); err != nil {
					t.Error(err)
				}
				return peers.Reply{Answer: cache.Answer{Kind: cache.KindLoad, Node: "n1", Entry: &cache.Entry{}}, Counted: true}, nil
			}
			if _, err := s.Get(t.Context(), key, false); err != nil {
				t.Error(err)
			}
		}
	})
}

// full checks that there is no place for another get that waits.
func (s *single) full() error {
	_, err := s.Get(s.t.Context(), doc(s.mine()), false)
	if !errors.Is(err, cache.ErrOverloaded) {
		return errors.New("a get beyond the limit waited")
	}
	return nil
}

// A request that cannot be one is on no books, and nobody is asked.
func TestGetsThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		for key, want := range map[cache.Key]error{
			{Group: "nope", Key: "k"}:      cache.ErrUnknownGroup,
			doc(""):                        cache.ErrBadKey,
			kv(""):                         cache.ErrBadKey,
			kv("a\x00b"):                   cache.ErrBadKey,
			doc("\xc3\x28"):                cache.ErrBadKey,
			doc(strings.Repeat("k", 1025)): cache.ErrKeyTooLong,
		} {
			if a, err := s.Get(t.Context(), key, false); !errors.Is(err, want) || a.Kind != cache.KindNone || a.Node != "n0" {
				t.Errorf("%q: %+v, %v, want %v", key.Key, a, err, want)
			}
			if err := s.CheckKey(key); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", key.Key, err, want)
			}
			if _, err := s.Put(t.Context(), &cache.Request{Key: key}); !errors.Is(err, want) {
				t.Errorf("a put of %q: %v, want %v", key.Key, err, want)
			}
			if err := s.Delete(t.Context(), key); !errors.Is(err, want) {
				t.Errorf("a delete of %q: %v, want %v", key.Key, err, want)
			}
		}
		if b := s.Stats(); b.Gets != 0 || len(s.peers.calls()) != 0 {
			t.Errorf("%d gets, calls of %v", b.Gets, s.peers.calls())
		}
	})
}

// A key that the group cannot have is answered by the node that is asked.
func TestAKeyThatDoesNotMatchIsNotForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t, func(o *cache.Options) { o.Groups[0].KeyPattern = "[a-z]" })
		a, err := s.Get(t.Context(), doc(s.theirs()), false)
		if err != nil || !a.Entry.Negative || a.Kind != cache.KindHit || a.Node != "n0" || len(s.peers.calls()) != 0 {
			t.Errorf("%+v, %v; calls of %v", a, err, s.peers.calls())
		}
		if r := s.Answer(t.Context(), inbound(cache.OpGet, doc(s.mine()))); r.Err != nil || !r.Answer.Entry.Negative || !r.Counted {
			t.Errorf("%+v", r)
		}
		if s.Stats().Gets != 1 || s.origin.requests() != 0 {
			t.Errorf("%d gets, %d loads", s.Stats().Gets, s.origin.requests())
		}
	})
}

func TestWriteThroughAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		key, ids := kv(s.theirs()), map[uint64]bool{}
		s.peers.call = func(_ context.Context, _ string, req *peers.Request) (peers.Reply, error) {
			ids[req.ID] = true
			return peers.Reply{Answer: cache.Answer{Node: "n1", Created: req.Op == cache.OpPut}}, nil
		}
		a, err := s.Put(t.Context(), &cache.Request{Key: key, Value: []byte("v"), TTL: time.Hour})
		if err != nil || !a.Created || a.Node != "n1" || a.Kind != cache.KindPeer {
			t.Errorf("%+v, %v", a, err)
		}
		// The other node has stored the entry, and the caller needs its validators.
		if e := a.Entry; e.ETag != cache.ContentETag([]byte("v"), "") || string(e.Value) != "v" || e.ContentType != "application/octet-stream" || e.TTL() != time.Hour {
			t.Errorf("%+v", e)
		}
		if err := s.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
		if len(ids) != 2 || ids[0] {
			t.Errorf("ids %v", ids)
		}
		if b := s.Stats(); b.Gets != 0 || b.Entries != 0 {
			t.Errorf("%+v", b)
		}
	})
}

func TestWriteWithAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alone(t)
		for _, key := range []string{s.mine(), s.theirs()} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Delete(ctx, kv(key)); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 0)
			defer cancel()
			if err := s.Delete(ctx, kv(key)); !errors.Is(err, cache.ErrWriteUnconfirmed) {
				t.Error(err)
			}
		}
		if len(s.peers.calls()) != 0 {
			t.Errorf("calls of %v", s.peers.calls())
		}
	})
}
