package peers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers/memnet"
)

// having is a Handler that has every key stored.
type having struct{ idle }

func (having) Serve(context.Context, *cache.Request) (cache.Answer, error) {
	return cache.Answer{Kind: cache.KindLoad, Entry: &cache.Entry{}}, nil
}

func (having) ServeStored(cache.Key, bool, func(*cache.Entry) bool) (cache.Answer, bool) {
	return cache.Answer{Kind: cache.KindHit, Entry: &cache.Entry{}}, true
}

// A call of another view than this node's is not acted on: who acts for its key
// may be another node there. The caller is told so, and nothing has happened.
func TestACallOfAnotherViewIsNotActedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		good, bad := pair(t, n)
		good.Start(having{})
		defer good.Close()
		serve(t, n, "n0:1", good)
		conn, r := dialled(t, n, bad)
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		frames := newFrameReader(r)
		id := uint64(0)
		ask := func(view uint64, req Request) (got Reply) {
			t.Helper()
			id++
			b := appendHeader(nil, frameCall, id, view, bad.incarnation)
			if _, err := conn.Write(endFrame(appendRequest(b, &req), 0, 0)); err != nil {
				t.Fatal(err)
			}
			for {
				h, err := frames.header()
				if err != nil {
					t.Fatal(err)
				}
				err = frames.body(h, func(b []byte) (err error) {
					if h.typ == frameAnswer {
						got, _, err = parseReply(b, 100, time.Now())
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if h.typ == frameAnswer && h.id == id {
					return got
				}
			}
		}
		key := cache.Key{Group: "g", Key: owned(good, "n0")}
		for name, req := range map[string]Request{
			"a get":    {Request: cache.Request{Op: cache.OpGet, Key: key}, Hop: 1},
			"a put":    {Request: cache.Request{Op: cache.OpPut, Key: key, ID: 1}, Hop: 1},
			"a delete": {Request: cache.Request{Op: cache.OpDelete, Key: key, ID: 2}, Hop: 1},
			"second":   {Request: cache.Request{Op: cache.OpGet, Key: key}, Hop: 2},
		} {
			if got := ask(2, req); !got.NotOwner || got.Counted || got.Answer.Entry != nil {
				t.Errorf("%s of another view: %+v", name, got)
			}
			if got := ask(1, req); got.NotOwner || got.Answer.Entry == nil {
				t.Errorf("%s of this view: %+v", name, got)
			}
		}
		many := Request{Request: cache.Request{Op: OpGetMany, Key: cache.Key{Group: "g"}}, Hop: 1, Keys: []string{key.Key}}
		if got := ask(2, many); len(got.Many) != 1 || got.Many[0].Kind != cache.KindNone {
			t.Errorf("a batch of another view: %+v", got.Many)
		}
		if got := ask(1, many); len(got.Many) != 1 || got.Many[0].Kind != cache.KindHit {
			t.Errorf("a batch of this view: %+v", got.Many)
		}
	})
}
