package httpapi

import (
	"errors"
	"testing"
	"time"

	"kring/cache"
)

// TestCacheStatus has each way to an answer, in the words of RFC 9211.
func TestCacheStatus(t *testing.T) {
	now := time.Now()
	value := &cache.Entry{Born: now, Expires: now.Add(37500 * time.Millisecond)}
	forever := &cache.Entry{Born: now}
	negative := &cache.Entry{Born: now, Expires: now.Add(time.Minute), Negative: true}
	old := &cache.Entry{Born: now.Add(-2 * time.Minute), Expires: now.Add(-time.Minute)}
	long := &cache.Entry{Born: now, Expires: now.Add(48 * time.Hour)}
	for _, c := range []struct {
		ans  cache.Answer
		want string
	}{
		{cache.Answer{Kind: cache.KindHit, Entry: value}, "kring-1; hit; ttl=37"},
		{cache.Answer{Kind: cache.KindHit, Entry: long}, "kring-1; hit; ttl=172800"},
		{cache.Answer{Kind: cache.KindHit, Entry: forever}, "kring-1; hit"},
		{cache.Answer{Kind: cache.KindHit, Entry: negative}, "kring-1; hit; detail=negative"},
		{cache.Answer{Kind: cache.KindStale, Entry: old}, "kring-1; hit; detail=stale"},
		{cache.Answer{Kind: cache.KindStale, Entry: old, StaleError: true}, "kring-1; hit; detail=stale"},
		{cache.Answer{Kind: cache.KindLoad, Entry: value, Status: 200, Stored: true}, "kring-1; fwd=miss; fwd-status=200; stored"},
		{cache.Answer{Kind: cache.KindLoad, Entry: value, Status: 200}, "kring-1; fwd=miss; fwd-status=200"},
		{cache.Answer{Kind: cache.KindLoad, Entry: value, Status: 304, Stored: true}, "kring-1; fwd=stale; fwd-status=304; stored"},
		{cache.Answer{Kind: cache.KindLoad, Entry: negative, Status: 404, Stored: true}, "kring-1; fwd=miss; fwd-status=404; stored"},
		{
			cache.Answer{Kind: cache.KindJoined, Entry: value, Status: 200, Stored: true},
			"kring-1; fwd=miss; fwd-status=200; stored; collapsed",
		},
		{cache.Answer{Kind: cache.KindHit, Entry: value, StandIn: true}, "kring-1; hit; ttl=37; detail=stand-in"},
		{cache.Answer{Kind: cache.KindStale, Entry: old, StandIn: true}, "kring-1; hit; detail=stand-in"},
		{
			cache.Answer{Kind: cache.KindLoad, Entry: value, Status: 200, Stored: true, StandIn: true},
			"kring-1; fwd=miss; fwd-status=200; stored; detail=stand-in",
		},
		{
			cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindHit, Node: "kring-2", Entry: value},
			"kring-2; hit; ttl=37, kring-1; fwd=miss; detail=peer:kring-2",
		},
		{
			cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindHit, Node: "kring-2", Entry: value, StandIn: true},
			"kring-2; hit; ttl=37; detail=stand-in, kring-1; fwd=miss; detail=peer:kring-2",
		},
		{
			cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindHit, Node: "kring-2", Entry: negative},
			"kring-2; hit; detail=negative, kring-1; fwd=miss; detail=peer:kring-2",
		},
		{
			cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindStale, Node: "kring-2", Entry: old},
			"kring-2; hit; detail=stale, kring-1; fwd=miss; detail=peer:kring-2",
		},
		{
			cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindLoad, Node: "kring-2", Entry: value, Status: 200, Stored: true},
			"kring-2; fwd=miss; fwd-status=200; stored, kring-1; fwd=miss; detail=peer:kring-2",
		},
		{
			cache.Answer{Kind: cache.KindJoined, OwnerKind: cache.KindLoad, Node: "kring-2", Entry: value, Status: 200, Stored: true},
			"kring-2; fwd=miss; fwd-status=200; stored, kring-1; fwd=miss; collapsed; detail=peer:kring-2",
		},
		{
			cache.Answer{Kind: cache.KindJoined, OwnerKind: cache.KindJoined, Node: "kring-1", Entry: value, Status: 200},
			"kring-1; fwd=miss; fwd-status=200; collapsed",
		},
		{
			cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindHit, Node: "10.0.0.2:80", Entry: value},
			`"10.0.0.2:80"; hit; ttl=37, kring-1; fwd=miss; detail=peer:10.0.0.2:80`,
		},
	} {
		s := newStatuses("kring-1")
		for range 2 { // made, and kept
			if got := s.values(&c.ans, now); len(got) != 1 || got[0] != c.want {
				t.Errorf("%+v:\ngot  %q\nwant %q", c.ans, got, c.want)
			}
		}
	}
	if got := newStatuses("8001").values(&cache.Answer{Kind: cache.KindHit, Entry: forever}, now)[0]; got != `"8001"; hit` {
		t.Errorf("a name that is no token: %s", got)
	}
}

// Problems say where they come from, too.
func TestCacheStatusOfProblems(t *testing.T) {
	failed := cache.ErrOriginFailed.With("endpoint a answered 500")
	for _, c := range []struct {
		ans  cache.Answer
		err  error
		want string
	}{
		{cache.Answer{Kind: cache.KindLoad, Node: "kring-1", Status: 500}, failed, "kring-1; fwd=miss; fwd-status=500"},
		{cache.Answer{Kind: cache.KindLoad, Node: "kring-1"}, failed, "kring-1; fwd=miss; detail=origin-failed"},
		{cache.Answer{Kind: cache.KindJoined, Node: "kring-1", Status: 403}, failed, "kring-1; fwd=miss; fwd-status=403; collapsed"},
		{cache.Answer{Kind: cache.KindRefused, Node: "kring-1"}, cache.ErrOverloaded, "kring-1; detail=overloaded"},
		{cache.Answer{Kind: cache.KindRefused, Node: "kring-1"}, cache.ErrNotCached, "kring-1; detail=not-cached"},
		{cache.Answer{Kind: cache.KindLoad, Node: "kring-1", Status: 500, StandIn: true}, failed, "kring-1; fwd=miss; fwd-status=500; detail=stand-in"},
		{cache.Answer{Kind: cache.KindNone, Node: "kring-1"}, cache.ErrBadKey, "kring-1; detail=bad-key"},
		{cache.Answer{Kind: cache.KindNone, Node: "kring-1"}, errors.New("secret"), "kring-1; detail=internal"},
		{cache.Answer{Kind: cache.KindPeer}, cache.ErrOriginTimeout, "kring-1; fwd=miss; detail=origin-timeout"},
		{
			cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindLoad, Node: "kring-2", Status: 500},
			failed,
			"kring-2; fwd=miss; fwd-status=500, kring-1; fwd=miss; detail=peer:kring-2",
		},
		{
			cache.Answer{Kind: cache.KindPeer, OwnerKind: cache.KindRefused, Node: "kring-2"},
			cache.ErrOverloaded,
			"kring-2; detail=overloaded, kring-1; fwd=miss; detail=peer:kring-2",
		},
	} {
		if got := newStatuses("kring-1").failed(&c.ans, c.err); len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v, %v:\ngot  %q\nwant %q", c.ans, c.err, got, c.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, time.Nanosecond: 0, 999 * time.Millisecond: 0, time.Second: 1, 1999 * time.Millisecond: 1,
		-time.Nanosecond: -1, -time.Second: -1, -1001 * time.Millisecond: -2,
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}
