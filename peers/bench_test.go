package peers_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"kring/cache"
	"kring/membership"
	"kring/peers"
)

// still answers every get with the same entry.
type still struct{ answer cache.Answer }

func (s still) Serve(context.Context, *cache.Request) (cache.Answer, error) { return s.answer, nil }
func (s still) ServeStored(cache.Key, bool, func(*cache.Entry) bool) (cache.Answer, bool) {
	return s.answer, s.answer.Entry != nil
}
func (still) Settle(cache.Kind, bool)           {}
func (still) DropGroup(string)                  {}
func (still) DropTags(string, []string)         {}
func (still) Copy(cache.Key) (cache.Copy, bool) { return cache.Copy{}, false }

// BenchmarkForwardHit is one get from the entry node to the owner and back,
// both in this process, over loopback, by 64 callers at once.
func BenchmarkForwardHit(b *testing.B) {
	for _, size := range []int{128, 4096} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			entry := &cache.Entry{
				Value: make([]byte, size), ContentType: "application/json", ETag: `"0123456789abcdef"`,
				Born: time.Now(), TTL: time.Minute,
			}
			nodes := loopback(b, 2, still{cache.Answer{Kind: cache.KindHit, OwnerKind: cache.KindHit, Node: "n1", Entry: entry}})
			key := ownedBy(nodes[0], "n1")
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				req := &cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "docs", Key: key}}
				for pb.Next() {
					if _, err := nodes[0].Forward(ctx, req); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkActs is the question that every request asks first.
func BenchmarkActs(b *testing.B) {
	nodes := loopback(b, 3, still{})
	b.ReportAllocs()
	for b.Loop() {
		nodes[0].Acts("user:4711")
	}
}

func ownedBy(p *peers.Peers, id string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("user:%d", i); p.View().Ring.Get(key) == id {
			return key
		}
	}
}

// loopback starts n nodes on 127.0.0.1 and waits until they are ready.
func loopback(b *testing.B, n int, h peers.Handler) []*peers.Peers {
	b.Helper()
	config := membership.DefaultConfig()
	var listeners []net.Listener
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		listeners = append(listeners, l)
		config.Peers = append(config.Peers, fmt.Sprintf("n%d=http://%s", i, l.Addr()))
	}
	var nodes []*peers.Peers
	for i, l := range listeners {
		p, err := peers.New(peers.Options{
			Self: membership.Member{ID: fmt.Sprintf("n%d", i)}, Config: config,
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		server := &http.Server{Handler: p}
		done := make(chan error)
		go func() { done <- server.Serve(l) }()
		p.Start(h)
		b.Cleanup(func() { server.Close(); p.Close(); <-done })
		nodes = append(nodes, p)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for _, p := range nodes {
		for ok, reason := p.Ready(); !ok; ok, reason = p.Ready() {
			if b.Elapsed() > 10*time.Second {
				b.Fatal(reason)
			}
			<-ticker.C
		}
	}
	return nodes
}
