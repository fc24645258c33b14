package httpapi_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"kring/cache"
)

// A load carries the id of the request that started it, so that the log of a
// failed load can be found from the problem that a client got.
func TestALoadHasItsRequestsID(t *testing.T) {
	var mu sync.Mutex // guards ids
	ids := map[string]string{}
	s := serve(t, func(c *setup) {
		c.cache.Loader = cache.LoaderFunc(func(_ context.Context, l *cache.Load) (cache.Loaded, error) {
			l.Sent.Add(1)
			mu.Lock()
			defer mu.Unlock()
			ids[l.Key.Key] = l.RequestID
			return cache.Loaded{}, cache.ErrOriginFailed
		})
	})
	s.raw(t, "GET /v1/cache/docs/one HTTP/1.1\r\nHost: h\r\nX-Request-ID: mine-1\r\n\r\n")
	body := `{"keys":["two","three"]}`
	s.raw(t, "POST /v1/batch/docs HTTP/1.1\r\nHost: h\r\nX-Request-ID: mine-2\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n"+body)
	a := s.raw(t, "GET /v1/cache/docs/four HTTP/1.1\r\nHost: h\r\n\r\n")
	mu.Lock()
	defer mu.Unlock()
	if ids["one"] != "mine-1" || ids["two"] != "mine-2" || ids["three"] != "mine-2" || ids["four"] == "" || !strings.Contains(a.body, ids["four"]) {
		t.Errorf("ids of loads %q; the last answer was %s", ids, a.body)
	}
}
