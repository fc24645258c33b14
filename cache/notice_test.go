package cache_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"kring/cache"
)

func TestBackgroundFailuresAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := setup(t, group(short), func(o *cache.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		keys := []string{"secret-1", "secret-2", "secret-3"}
		visit := func() {
			for _, k := range keys {
				f.get(doc(k))
			}
			synctest.Wait()
		}
		visit()
		pass(10 * second)
		f.origin.set(0, failing)
		visit()
		pass(second)
		visit()
		f.origin.set(0, counting)
		pass(2 * second)
		visit()
		pass(10 * second)
		visit()
		if s := log.String(); strings.Count(s, "background loads fail") != 1 || strings.Count(s, "background loads work again") != 1 || strings.Contains(s, "secret") {
			t.Errorf("%s", s)
		}
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) { panic("broken loader") })
		f.get(doc("k"))
		synctest.Wait() // the client does not wait for the line
		if s := log.String(); !strings.Contains(s, "load panicked") || !strings.Contains(s, "goroutine ") {
			t.Errorf("%s", s)
		}
	})
}

// An origin that fails now and then does not fill the log, nor does a node that has
// reached its limit of loads.
func TestOccasionalBackgroundFailuresAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := setup(t, group(func(g *cache.GroupConfig) { g.TTL = second }), func(o *cache.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
			if n%2 == 0 {
				return failing(n, l)
			}
			return counting(n, l)
		})
		for range 20 {
			f.get(doc("k"))
			pass(3 * second)
		}
		if s := log.String(); strings.Count(s, "background loads fail") != 1 || strings.Contains(s, "again") {
			t.Errorf("%s", s)
		}
		log.Reset()
		f.origin.refuses(cache.ErrOverloaded)
		f.get(doc("k"))
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("%s", log.String())
		}
	})
}

// A load that ends at the same moment as its waiter's time counts once.
func TestALoadThatEndsWithItsWaitersTimeCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.latency = second
		for range 200 {
			f.remove(doc("k"))
			ctx, cancel := context.WithTimeout(t.Context(), second)
			g := f.getCtx(ctx, doc("k"))
			if g.err == nil && g.Kind != cache.KindLoad || g.err != nil && g.Kind != cache.KindJoined {
				t.Errorf("%+v", g)
			}
			cancel()
			synctest.Wait()
			f.checkBooks()
		}
	})
}

func TestLoaderThatDoesNotCountItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(o *cache.Options) {
			o.Loader = cache.LoaderFunc(func(context.Context, *cache.Load) (cache.Loaded, error) { return value("v"), nil })
		})
		f.origin.sent = 1 // the request that the origin would have seen
		f.wants(f.get(doc("k")), "v", cache.KindLoad)
	})
}

// The versions of one node's values grow, and differ from all of another node's.
func TestVersionsGrowAndAreTheNodesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other := setup(t), setup(t)
		first := f.put(kv("k"), "v").Entry.Version
		for i := range uint64(3) {
			v := f.put(kv("k"), "v").Entry.Version
			if v.View != first.View || v.ViewID != first.ViewID || v.Counter != first.Counter+i+1 {
				t.Errorf("%v, %d after %v", v, i+1, first)
			}
		}
		if v := other.put(kv("k"), "v").Entry.Version; v.ViewID == first.ViewID {
			t.Errorf("%v at one node, %v at another", first, v)
		}
	})
}

// stuck is a log that nobody reads.
type stuck struct{ until chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.until
	return len(p), nil
}

// The waiters of a load do not wait for the log line of its panic.
func TestAPanicIsAnsweredBeforeItIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := stuck{make(chan struct{})}
		f := setup(t, func(o *cache.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
		f.origin.set(0, func(int, *cache.Load) (cache.Loaded, error) { panic("broken loader") })
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		f.wantsError(f.getCtx(ctx, doc("k")), cache.ErrInternal, cache.KindLoad)
		f.origin.set(0, counting)
		if g := f.getCtx(ctx, doc("k")); g.err != nil {
			t.Errorf("the key's next get: %v", g.err)
		}
		close(log.until)
	})
}
