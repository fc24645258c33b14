package peers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/link"
	"kring/membership"
	"kring/peers/memnet"
)

func TestAMemberThatSendsNonsenseLosesItsLink(t *testing.T) {
	request := func(op cache.Op, value int, keys ...string) []byte {
		return appendRequest(nil, &Request{Request: cache.Request{Op: op, Value: make([]byte, value)}, Hop: 1, Keys: keys})
	}
	for name, sent := range map[string][]byte{
		"unknown operation":        {99, 1, 0, 0, 0, 0},
		"value above the limit":    request(cache.OpPut, 2<<20),
		"many gets of none":        request(OpGetMany, 0),
		"many gets of too many":    request(OpGetMany, 0, make([]string, MaxMany+1)...),
		"many gets, fewer than so": {byte(OpGetMany), 1, 0, 0, 0, 0, 3, 1, 'k'},
		"hop three":                {byte(cache.OpGet), 3, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := memnet.New()
				good, bad := pair(t, n)
				good.Start(idle{})
				defer good.Close()
				serve(t, n, "n0:1", good)
				c := &anyCall{body: sent}
				if err := dialled(t, n, bad).Begin(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if <-c.Done(); !errors.Is(c.Err(), link.ErrClosed) {
					t.Error(c.Err())
				}
				synctest.Wait()
				if s := good.Stats(); s.BrokenFrames != 1 || s.Incoming != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestAMemberThatAnswersNonsenseIsNotWaitedFor(t *testing.T) {
	body := func(body []byte) func(*anyAnswer) {
		return func(a *anyAnswer) { a.body = body }
	}
	says := func(says []byte) func(*anyAnswer) {
		return func(a *anyAnswer) {
			if err := a.Progress(says...); err != nil {
				panic(err)
			}
			a.body = appendReply(nil, &Reply{}, time.Now())
		}
	}
	for name, answer := range map[string]func(*anyAnswer){
		"a body that is short":  body([]byte{flagEntry, 0}),
		"answers to many gets":  body(appendReply(nil, &Reply{Many: make([]cache.Answer, 1)}, time.Now())),
		"a load without a flag": says(make([]byte, 8)),
		"a load of odd flags":   says(append(make([]byte, 8), 2)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := memnet.New()
				good, bad := pair(t, n)
				byHand(t, n, "n1:1", bad, hand{hears("n0"), answer})
				good.Start(idle{})
				defer good.Close()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := good.Call(ctx, "n1", getOf("k")); !NoAnswer(err) {
					t.Errorf("get: %v", err)
				}
				synctest.Wait()
				if good.Stats().BrokenFrames == 0 {
					t.Error("not counted")
				}
			})
		})
	}
	t.Run("a pong that is broken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New()
			good, bad := pair(t, n)
			byHand(t, n, "n1:1", bad, hand{pong: func() []byte { return make([]byte, 7) }})
			good.Start(idle{})
			defer good.Close()
			<-time.After(time.Second)
			if good.Stats().BrokenFrames == 0 {
				t.Error("not counted")
			}
		})
	})
}

func TestCallsWaitForASlotAndAreThenOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1024
		n := memnet.New()
		one, two := pair(t, n)
		two.Speaks(1) // so that the calls keep their slots, though they wait
		serve(t, n, "n0:1", one)
		serve(t, n, "n1:1", two)
		for _, p := range []*Peers{one, two} {
			p.Start(idle{})
			defer p.Close()
		}
		<-time.After(time.Second)
		var callers sync.WaitGroup
		for range most {
			callers.Go(func() {
				if _, err := one.Call(t.Context(), "n1", getOf("k")); !NoAnswer(err) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := one.Call(short, "n1", getOf("k")); !errors.Is(err, cache.ErrOverloaded) {
			t.Errorf("the %dth call: %v", most+1, err)
		}
		if s := one.Stats().Peers[0]; s.InFlight != most || s.Open {
			t.Errorf("%+v", s)
		}
		waits := make(chan error)
		go func() { _, err := one.Call(t.Context(), "n1", getOf("k")); waits <- err }()
		synctest.Wait()
		n.Kill("n1:1")
		callers.Wait()
		if err := <-waits; !NoAnswer(err) {
			t.Errorf("one that waited when the owner died: %v", err)
		}
	})
}

// What changes something begins only when all that came with it was read.
func TestReadsChangeNothing(t *testing.T) {
	for op, changes := range map[cache.Op]bool{
		cache.OpGet: false, OpGetMany: false, OpCopy: false,
		cache.OpPut: true, cache.OpDelete: true, OpPurge: true, OpPurgeTags: true,
	} {
		in := Inbound{Request: Request{Request: cache.Request{Op: op}}}
		if in.Changes() != changes {
			t.Errorf("operation %d changes: %v", op, in.Changes())
		}
	}
}

// A member whose values take all room on its link is told so, and loses neither the
// link nor other calls.
func TestTooManyBigValuesAtOnceAreOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		good, bad := pair(t, n)
		good.Start(idle{})
		defer good.Close()
		serve(t, n, "n0:1", good)
		l := &outgoing{pe: bad.others["n0"], maxValue: 1 << 20}
		l.Outgoing = dialled(t, n, bad)
		head := appendRequest(nil, &Request{Request: cache.Request{Op: cache.OpPut, Key: cache.Key{Group: "g", Key: "k"}, Value: make([]byte, 1<<20)}, Hop: 1})
		for range 64 { // their values never come
			if err := l.Begin(t.Context(), &anyCall{body: head}); err != nil {
				t.Fatal(err)
			}
		}
		put := &Request{Request: cache.Request{Op: cache.OpPut, Key: cache.Key{Group: "g", Key: "k"}, Value: make([]byte, 1<<20)}, Hop: 1}
		r, err := l.call(t.Context(), put)
		if err != nil || !errors.Is(r.Err, cache.ErrOverloaded) {
			t.Errorf("%v, %v", r.Err, err)
		}
		if s := good.Stats(); s.BrokenFrames != 0 || s.Incoming != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNodesWithoutRoomTakeAnyValue(t *testing.T) {
	var r boundless
	e := &cache.Entry{}
	if !r.Take(e, 1<<40) || r.Wait(t.Context(), e, 1<<40) != nil {
		t.Error("a value was refused")
	}
	r.Give(e)
}

// A cluster's name must have room in a handshake.
func TestNamesFitInHandshakes(t *testing.T) {
	if link.MaxName < membership.MaxName {
		t.Errorf("%d of %d bytes", link.MaxName, membership.MaxName)
	}
}
