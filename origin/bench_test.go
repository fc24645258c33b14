package origin_test

import (
	"context"
	"net/http"
	"testing"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

// One load over loopback, including the server's work.
func BenchmarkLoad(b *testing.B) {
	value := make([]byte, 1024)
	srv := serve(b, func(w http.ResponseWriter, _ *http.Request) { w.Write(value) })
	s := start(b, "/docs/{key}", []string{srv.URL}, func(_ *balance.Config, o *origin.Options) { o.Config.MaxLoads = 1 << 10 })
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			if _, err := s.group.Load(ctx, &cache.Load{Key: cache.Key{Group: "docs", Key: "k"}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
