package cluster_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"kring/cache"
	"kring/cluster"
	"kring/membership"
	"kring/peers"
)

// BenchmarkForwardHit is one get from the entry node to the owner and back, both in this
// process, over loopback, by 64 callers at once.
func BenchmarkForwardHit(b *testing.B) {
	for _, size := range []int{128, 4096} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			nodes := loopback(b, 2)
			key := kv(ownedBy(nodes[0], "n1", 1)[0])
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			if _, err := nodes[0].Put(ctx, &cache.Request{Key: key, Value: make([]byte, size), ContentType: "application/json"}); err != nil {
				b.Fatal(err)
			}
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := nodes[0].Get(ctx, key, false); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkActs is the question that every request asks first.
func BenchmarkActs(b *testing.B) {
	nodes := loopback(b, 3)
	b.ReportAllocs()
	for b.Loop() {
		nodes[0].RouteOf("user:4711")
	}
}

// BenchmarkHit is a get of the node that owns the key.
func BenchmarkHit(b *testing.B) {
	nodes := loopback(b, 1)
	key := kv("user:4711")
	if _, err := nodes[0].Put(b.Context(), &cache.Request{Key: key, Value: make([]byte, 256)}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if a, err := nodes[0].Get(b.Context(), key, false); err != nil || a.Kind != cache.KindHit {
			b.Fatal(a, err)
		}
	}
}

// BenchmarkGetMany is a batch of a hundred keys that are stored, at the node that is
// asked or at another one.
func BenchmarkGetMany(b *testing.B) {
	for _, owner := range []string{"n0", "n1"} {
		b.Run(owner, func(b *testing.B) {
			nodes := loopback(b, 2)
			keys := ownedBy(nodes[0], owner, 100)
			for _, key := range keys {
				if _, err := nodes[0].Put(b.Context(), &cache.Request{Key: kv(key), Value: make([]byte, 256)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, results := range nodes[0].GetMany(b.Context(), "kv", keys, time.Minute) {
					if results[0].Node != owner {
						b.Fatal(results[0])
					}
				}
			}
		})
	}
}

// ownedBy are n keys that a node routes to another.
func ownedBy(c *cluster.Cluster, id string, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprintf("user:%d", i); c.RouteOf(key).Node == id {
			keys = append(keys, key)
		}
	}
	return keys
}

// loopback starts n nodes on 127.0.0.1 and waits until they are ready.
func loopback(b *testing.B, n int) []*cluster.Cluster {
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
	var nodes []*cluster.Cluster
	var ready []func() (bool, string)
	for i, l := range listeners {
		id := fmt.Sprintf("n%d", i)
		p, err := peers.New(peers.Options{
			Self: membership.Member{ID: id}, Config: config,
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		store, err := cache.New(cache.Options{Node: id, Config: cache.DefaultConfig(), Groups: []cache.GroupConfig{{Name: "kv"}}})
		if err != nil {
			b.Fatal(err)
		}
		c := cluster.New(store, p)
		server := &http.Server{Handler: links(p)}
		done := make(chan error)
		go func() { done <- server.Serve(l) }()
		p.Start(c)
		b.Cleanup(func() { server.Close(); p.Close(); store.Close(); <-done })
		nodes, ready = append(nodes, c), append(ready, p.Ready)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	for _, isReady := range ready {
		for ok, reason := isReady(); !ok; ok, reason = isReady() {
			if time.Since(began) > 10*time.Second {
				b.Fatal(reason)
			}
			<-ticker.C
		}
	}
	return nodes
}
