package peers_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kring/cache"
	"kring/membership"
	"kring/peers"
)

// still answers every get with the same entry.
type still struct{ answer cache.Answer }

func (s still) Stored(in *peers.Inbound, reply *peers.Reply) bool {
	reply.Answer, reply.Counted = s.answer, s.answer.Entry != nil
	return reply.Counted && in.Op == cache.OpGet
}

func (s still) Answer(context.Context, *peers.Inbound) peers.Reply {
	return peers.Reply{Answer: s.answer, Counted: true}
}

func (still) Delivered(cache.Kind, bool) {}

// BenchmarkCallHit is one get at another node in this process, over loopback, by 64
// callers at once.
func BenchmarkCallHit(b *testing.B) {
	for _, size := range []int{128, 4096} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			entry := &cache.Entry{
				Value: make([]byte, size), ContentType: "application/json", ETag: `"0123456789abcdef"`,
				Born: time.Now(), Expires: time.Now().Add(time.Minute),
			}
			nodes := loopback(b, 2, still{cache.Answer{Kind: cache.KindHit, OwnerKind: cache.KindHit, Node: "n1", Entry: entry}})
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				req := getOf("k")
				for pb.Next() {
					if _, err := nodes[0].Call(ctx, "n1", req); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func getOf(key string) *peers.Request {
	return &peers.Request{Request: cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "docs", Key: key}}, Hop: 1}
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

// slow never answers gets of keys that begin with "slow", and says for which load each
// of them waits.
type slow struct{ still }

func (s slow) Answer(ctx context.Context, in *peers.Inbound) peers.Reply {
	if err := in.Waiting.Loading(uint64(crc32.ChecksumIEEE([]byte(in.Key.Key))), false); err != nil {
		return peers.Reply{Err: err}
	}
	<-ctx.Done()
	return peers.Reply{Err: ctx.Err()}
}

func (s slow) Stored(in *peers.Inbound, reply *peers.Reply) bool {
	return !strings.HasPrefix(in.Key.Key, "slow") && s.still.Stored(in, reply)
}

// BenchmarkHitBesideWaiters is a hit through a link on which 12,000 gets wait,
// as a ratio to the same on a link without them: 99th percentiles of 64 callers.
func BenchmarkHitBesideWaiters(b *testing.B) {
	for name, slowKeys := range map[string]int{"one key": 1, "each its own": 12000} {
		b.Run(name, func(b *testing.B) {
			entry := &cache.Entry{Value: make([]byte, 128), ContentType: "application/json", Born: time.Now(), Expires: time.Now().Add(time.Minute)}
			h := slow{still{cache.Answer{Kind: cache.KindHit, OwnerKind: cache.KindHit, Node: "n1", Entry: entry}}}
			idle, busy := loopback(b, 2, h), loopback(b, 2, h)
			ctx, cancel := context.WithCancel(b.Context())
			var waiters sync.WaitGroup
			b.Cleanup(func() { cancel(); waiters.Wait() })
			for i := range 12000 {
				key := fmt.Sprint("slow-", i%slowKeys)
				waiters.Go(func() {
					_, err := busy[0].Call(ctx, "n1", getOf(key))
					if err == nil {
						b.Error("a slow key was answered")
					}
				})
			}
			for busy[0].Stats().Peers[0].InFlight != slowKeys {
				<-time.After(time.Millisecond)
			}
			var without, with []time.Duration
			for b.Loop() {
				without = append(without, hits(b, idle[0])...)
				with = append(with, hits(b, busy[0])...)
			}
			slices.Sort(without)
			slices.Sort(with)
			p99 := func(of []time.Duration) float64 { return float64(of[len(of)*99/100]) }
			b.ReportMetric(p99(with)/p99(without), "p99-ratio")
			b.ReportMetric(p99(without)/1e3, "p99-without-µs")
			b.ReportMetric(p99(with)/1e3, "p99-with-µs")
		})
	}
}

// hits is how long each of 64 × 100 gets took.
func hits(b *testing.B, p *peers.Peers) []time.Duration {
	const callers, each = 64, 100
	took := make([]time.Duration, callers*each)
	var calling sync.WaitGroup
	for c := range callers {
		calling.Go(func() {
			req := getOf("k")
			for i := range each {
				began := time.Now()
				if _, err := p.Call(b.Context(), "n1", req); err != nil {
					b.Error(err)
				}
				took[c*each+i] = time.Since(began)
			}
		})
	}
	calling.Wait()
	return took
}
