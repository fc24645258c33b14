package peers

import (
	"context"
	"testing"
	"testing/synctest"

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
		good, other := pair(t, n)
		good.Start(viewing{})
		defer good.Close()
		serve(t, n, "n0:1", good)
		for _, view := range []uint64{1, 2} {
			other.node.View = func() (number, id uint64) { return view, 0 }
			l := &outgoing{pe: other.others["n0"], maxValue: 100}
			l.Outgoing = dialled(t, n, other)
			key := cache.Key{Group: "g", Key: "k"}
			for name, req := range map[string]Request{
				"a get":    {Request: cache.Request{Op: cache.OpGet, Key: key}, Hop: 1},
				"a put":    {Request: cache.Request{Op: cache.OpPut, Key: key, ID: 1}, Hop: 1},
				"a delete": {Request: cache.Request{Op: cache.OpDelete, Key: key, ID: 2}, Hop: 1},
				"second":   {Request: cache.Request{Op: cache.OpGet, Key: key}, Hop: 2},
			} {
				got, err := l.call(t.Context(), &req)
				if err != nil || got.Answer.Status != int(view) {
					t.Errorf("%s of view %d: the handler was told view %d, %v", name, view, got.Answer.Status, err)
				}
			}
		}
	})
}
