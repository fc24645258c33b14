package peers

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
	"kring/peers/memnet"
)

// ledger is a Handler that holds what it answers against what it is told of.
type ledger struct {
	idle
	running  atomic.Int64
	answered atomic.Int64 // gets that are to be settled
	settled  atomic.Int64
	bytes    atomic.Int64 // the largest value of a put
}

func (l *ledger) Serve(ctx context.Context, r *cache.Request) (cache.Answer, error) {
	l.running.Add(1)
	defer l.running.Add(-1)
	switch {
	case r.Op == cache.OpPut:
		l.bytes.Store(max(l.bytes.Load(), int64(len(r.Value))))
		return cache.Answer{Created: true}, nil
	case r.Op == cache.OpDelete:
		return cache.Answer{}, nil
	case len(r.Key.Key)%4 == 1: // until the caller leaves
		<-ctx.Done()
		return cache.Answer{}, ctx.Err()
	case len(r.Key.Key)%4 == 2:
		l.answered.Add(1)
		return cache.Answer{Kind: cache.KindRefused}, cache.ErrOverloaded
	}
	l.answered.Add(1)
	value := bytes.Repeat([]byte("v"), len(r.Key.Key)<<12) // some in chunks
	return cache.Answer{Kind: cache.KindHit, Entry: &cache.Entry{Value: value, Born: time.Now()}}, nil
}

func (l *ledger) Settle(cache.Kind, bool) { l.settled.Add(1) }

// FuzzIncoming has a member that is past the handshake send frames that are
// well formed and in any order: calls, parts of values, cancellations and
// pings, of few ids. Whatever it sends, the link ends when it hangs up, nothing
// is left running, and each get that was answered is settled once.
func FuzzIncoming(f *testing.F) {
	// Each step is a type, an id, a length, and as many bytes of a body.
	step := func(typ frameType, id byte, body []byte) []byte {
		return append([]byte{byte(typ), id, byte(len(body))}, body...)
	}
	call := func(id byte, r Request) []byte { return step(frameCall, id, appendRequest(nil, &r)) }
	get := Request{Request: cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "g", Key: "abc"}}, Hop: 1}
	waits, big := get, get
	waits.Key.Key = "a"
	big.Op, big.Value = cache.OpPut, make([]byte, chunkLen+100)
	f.Add(call(1, get))
	f.Add(append(call(1, waits), step(frameCancel, 1, nil)...))
	f.Add(append(append(call(1, big), call(2, get)...), step(frameChunk, 1, make([]byte, 100))...))
	f.Add(append(call(1, get), call(1, get)...))
	f.Add(step(framePing, 0, make([]byte, 8)))
	f.Add(step(frameAnswer, 1, make([]byte, 5)))
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New()
			good, bad := pair(t, n)
			var handler ledger
			good.Start(&handler)
			defer good.Close()
			serve(t, n, "n0:1", good)
			conn, r := dialled(t, n, bad)
			heard := make(chan struct{})
			go func() {
				defer close(heard)
				_, _ = io.Copy(io.Discard, r) // until the link ends, however it does
			}()
			for steps := 0; len(script) >= 3 && steps < 64; steps++ {
				length := min(int(script[2]), len(script)-3)
				b := appendHeader(nil, frameType(script[0]), uint64(script[1]), 1, bad.incarnation)
				b = append(b, script[3:3+length]...)
				if _, err := conn.Write(endFrame(b, 0, 0)); err != nil {
					break // it has had enough
				}
				script = script[3+length:]
			}
			synctest.Wait()
			conn.Close()
			<-heard
			synctest.Wait()
			if running, in := handler.running.Load(), good.Stats().Incoming; running != 0 || in != 0 {
				t.Errorf("%d calls and %d links are left", running, in)
			}
			if a, s := handler.answered.Load(), handler.settled.Load(); a != s {
				t.Errorf("%d gets were answered, %d settled", a, s)
			}
			if b := handler.bytes.Load(); b > 1<<20 {
				t.Errorf("a value of %d bytes", b)
			}
		})
	})
}
