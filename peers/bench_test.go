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

// slow answers gets of keys that begin with "slow" never, and says for which
// load each of them waits.
type slow struct{ still }

func (s slow) Serve(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	if err := req.Waiting.Loading(uint64(crc32.ChecksumIEEE([]byte(req.Key.Key))), false); err != nil {
		return cache.Answer{}, err
	}
	<-ctx.Done()
	return cache.Answer{}, ctx.Err()
}

func (s slow) ServeStored(key cache.Key, _ bool, _ func(*cache.Entry) bool) (cache.Answer, bool) {
	return s.answer, !strings.HasPrefix(key.Key, "slow")
}

// BenchmarkHitBesideWaiters is a hit through a link on which 12,000 gets wait,
// as a ratio to the same on a link without them: 99th percentiles of 64 callers.
func BenchmarkHitBesideWaiters(b *testing.B) {
	for name, slowKeys := range map[string]int{"one key": 1, "each its own": 12000} {
		b.Run(name, func(b *testing.B) {
			entry := &cache.Entry{Value: make([]byte, 128), ContentType: "application/json", Born: time.Now(), TTL: time.Minute}
			h := slow{still{cache.Answer{Kind: cache.KindHit, OwnerKind: cache.KindHit, Node: "n1", Entry: entry}}}
			idle, busy := loopback(b, 2, h), loopback(b, 2, h)
			ctx, cancel := context.WithCancel(b.Context())
			var waiters sync.WaitGroup
			b.Cleanup(func() { cancel(); waiters.Wait() })
			for i := range 12000 {
				key := slowKey(busy[0], i%slowKeys)
				waiters.Go(func() {
					_, err := busy[0].Forward(ctx, &cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "docs", Key: key}})
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

func slowKey(p *peers.Peers, i int) string {
	key := fmt.Sprint("slow-", i)
	for p.View().Ring.Get(key) != "n1" {
		key += "'"
	}
	return key
}

// hits is how long each of 64 × 100 gets took.
func hits(b *testing.B, p *peers.Peers) []time.Duration {
	const callers, each = 64, 100
	key := ownedBy(p, "n1")
	took := make([]time.Duration, callers*each)
	var calling sync.WaitGroup
	for c := range callers {
		calling.Go(func() {
			req := &cache.Request{Op: cache.OpGet, Key: cache.Key{Group: "docs", Key: key}}
			for i := range each {
				began := time.Now()
				if _, err := p.Forward(b.Context(), req); err != nil {
					b.Error(err)
				}
				took[c*each+i] = time.Since(began)
			}
		})
	}
	calling.Wait()
	return took
}
