package peers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers/memnet"
)

// viewing is a Handler that answers with the view of the call, as a status.
type viewing struct{ idle }

func (viewing) Stored(in *Inbound, reply *Reply) bool {
	reply.Answer.Status = int(in.View)
	return in.Op == cache.OpGet && in.Hop == 1
}

func (viewing) Answer(_ context.Context, in *Inbound) Reply {
	return Reply{Answer: cache.Answer{Status: int(in.View)}}
}

func TestTheHandlerIsToldTheViewOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		good, bad := pair(t, n)
		good.Start(viewing{})
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
		key := cache.Key{Group: "g", Key: "k"}
		for name, req := range map[string]Request{
			"a get":    {Request: cache.Request{Op: cache.OpGet, Key: key}, Hop: 1},
			"a put":    {Request: cache.Request{Op: cache.OpPut, Key: key, ID: 1}, Hop: 1},
			"a delete": {Request: cache.Request{Op: cache.OpDelete, Key: key, ID: 2}, Hop: 1},
			"second":   {Request: cache.Request{Op: cache.OpGet, Key: key}, Hop: 2},
		} {
			for _, view := range []uint64{1, 2} {
				if got := ask(view, req); got.Answer.Status != int(view) {
					t.Errorf("%s of view %d: the handler was told view %d", name, view, got.Answer.Status)
				}
			}
		}
	})
}
