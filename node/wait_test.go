package node_test

import (
	"context"
	"net/http"
	"testing"
)

// cancellableGet sends a GET in the background. leave cancels it; left is
// closed when it has ended.
func cancellableGet(t *testing.T, url string) (leave context.CancelFunc, left <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	transport := &http.Transport{}
	go func() {
		defer close(done)
		defer transport.CloseIdleConnections()
		if resp, err := transport.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("GET %s was answered with %d before it was left", url, resp.StatusCode)
		}
	}()
	return cancel, done
}
