package peers

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"kring/cache"
	"kring/peers/memnet"
)

// at is a Handler that has every key stored.
type at struct {
	idle
	value []byte
}

func (a at) Stored(_ *Inbound, reply *Reply) bool {
	reply.Answer = cache.Answer{Kind: cache.KindHit, Entry: &cache.Entry{Value: a.value, Born: time.Now()}}
	reply.Counted = true
	return true
}

// BenchmarkCall is a get of a stored value over a link on real sockets.
func BenchmarkCall(b *testing.B) {
	one, two := pair(b, memnet.New())
	hosts := map[string]string{}
	for host, p := range map[string]*Peers{"n0:1": one, "n1:1": two} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		hosts[host] = l.Addr().String()
		server := &http.Server{Handler: p}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) }) // until it is closed
		b.Cleanup(func() { server.Close(); serving.Wait() })
	}
	for _, p := range []*Peers{one, two} {
		p.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", hosts[addr])
		}
		p.Start(at{value: make([]byte, 1<<10)})
		b.Cleanup(func() { p.Close() })
	}
	for ready := false; !ready; time.Sleep(time.Millisecond) {
		ready, _ = one.Ready()
	}
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r, err := one.Call(b.Context(), "n1", getOf("key")); err != nil || len(r.Answer.Entry.Value) != 1<<10 {
				b.Errorf("%+v, %v", r, err)
				return
			}
		}
	})
}
