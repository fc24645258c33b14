package link

import (
	"context"
	"net"
	"sync"
	"testing"
)

// BenchmarkCall is a call of opaque bytes over a link on real sockets: small ones
// that the reader of the other end answers, and ones with an answer in chunks.
func BenchmarkCall(b *testing.B) {
	for name, body := range map[string][]byte{"small": {askAtOnce}, "large": {askValue, 0x80, 0x80, 0x10}} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			dialled, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			accepted, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			dialler, listener := thatNode(), thisNode()
			near, far := shakeHands(dialled, accepted, dialler, listener, "n0")
			if near.err != nil || far.err != nil {
				b.Fatal(near.err, far.err)
			}
			out := NewOutgoing(dialler, near.claim, near.conn, near.r, &friend{})
			in := NewIncoming(listener, far.claim, far.conn, far.r, still{})
			var running sync.WaitGroup
			running.Go(func() { _ = out.Run() })
			running.Go(func() { _ = in.Run(context.Background()) })
			defer running.Wait()
			defer out.Close()
			b.SetParallelism(32)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c := &letter{body: body}
					if err := out.Begin(b.Context(), c); err != nil {
						b.Error(err)
						return
					}
					if <-c.Done(); c.Err() != nil {
						b.Error(c.Err())
						return
					}
				}
			})
		})
	}
}

// still is a Handler that keeps no books.
type still struct{}

func (still) AppendPong(b []byte) []byte { return b }

func (still) Called(_ uint64, body []byte) (Answerer, error) {
	a := &stillAnswer{}
	a.Answered = body[0] == askAtOnce
	a.large = body[0] == askValue
	return a, nil
}

type stillAnswer struct {
	Inbound
	large bool
}

var largeValue = make([]byte, 256<<10)

func (a *stillAnswer) Answer(context.Context, []byte) {}
func (a *stillAnswer) Refuse(error)                   {}
func (a *stillAnswer) Written(bool)                   {}

func (a *stillAnswer) AppendAnswer(b []byte) []byte {
	if a.large {
		return append(b, 0x80, 0x80, 0x10)
	}
	return append(b, 0)
}

func (a *stillAnswer) BulkAnswer() []byte {
	if a.large {
		return largeValue
	}
	return nil
}
