package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// readyPath is the route of the probes.
const readyPath = "/readyz"

// question is one request for a node's readyPath. All callers that want its
// answer at the same time share it.
type question struct {
	done chan struct{} // closed after answered is set
	// answered says that the node sent any answer.
	answered bool
}

// questions owns the requests that belong to no caller.
type questions struct {
	ctx context.Context // ends with the client
	end context.CancelFunc

	mu      sync.Mutex // guards closed; held for additions to running
	closed  bool
	running sync.WaitGroup
}

func (q *questions) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.running.Add(1)
	}
	return !q.closed
}

func (q *questions) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.end()
	q.running.Wait()
}

// answers reports whether a node that was silent for SilenceTimeout answers a
// probe within another SilenceTimeout. "Not ready" is an answer. After Close it
// returns false.
func (c *Client) answers(n *node) bool {
	if !c.questions.begin() {
		return false
	}
	defer c.questions.running.Done()
	n.mu.Lock()
	q, first := n.asking, n.asking == nil
	if first {
		q = &question{done: make(chan struct{})}
		n.asking = q
	}
	n.mu.Unlock()
	if !first {
		<-q.done
		return q.answered
	}
	// The context is not the caller's: one caller that leaves must not end the
	// request for the others.
	ctx, cancel := context.WithTimeout(c.questions.ctx, c.cfg.SilenceTimeout)
	defer cancel()
	err := c.probe(ctx, n.url()+readyPath)
	q.answered = err == nil || errors.Is(err, errNotReady)
	if q.answered {
		n.heard.Store(int64(time.Since(c.start)))
	}
	n.mu.Lock()
	n.asking = nil
	n.mu.Unlock()
	close(q.done)
	return q.answered
}

var errNotReady = errors.New("the node is not ready")

// probe asks a failed node whether it is well. Only a 5xx means no: a proxy in
// front of the node may not know the route.
func (c *Client) probe(ctx context.Context, url string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	req.Header = c.header
	resp, err := c.connections.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer func() {
		if e := resp.Body.Close(); err == nil && e != nil {
			err = fmt.Errorf("probe: %w", e)
		}
	}()
	if _, err := io.CopyN(io.Discard, resp.Body, 4<<10); err != nil && err != io.EOF { //nolint:errorlint // exactly io.EOF, not an error that wraps it
		return fmt.Errorf("probe: %w", err)
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("probe: %w: %s", errNotReady, resp.Status)
	}
	return nil
}
