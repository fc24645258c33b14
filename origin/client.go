package origin

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// connectTimeout bounds dialling and the TLS handshake together.
	connectTimeout = 3 * time.Second
	// keepIdle is how long an idle connection is kept.
	keepIdle = 30 * time.Second
)

// client sends requests to endpoints and keeps their connections.
//
// It replaces http.Transport for two reasons. http.Transport does not tell how
// often it sent a request, so the books could not count an origin's requests.
// And it keeps a connection before it knows whether bytes follow the answer, so
// the surplus of a confused origin could become the value of the next key.
// net/http does the parsing.
type client struct {
	dial dialFunc
	tls  *tls.Config
	head int64         // bytes of an answer's head, at most
	most int           // idle connections to each endpoint, at most
	age  time.Duration // of a kept connection, at most; 0: no limit

	// mu guards idle and closed, and also whether a connection is in idle.
	mu     sync.Mutex
	idle   map[string][]*conn // by endpoint; the last used is at the end
	closed bool
}

// connectError is a failure before a byte was sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return "connect: " + e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// exchange sends a GET to an endpoint and reads the head of the answer. It adds
// to sent how often the origin has seen the request.
//
// A server may close a kept connection at any time, also while the next request
// is on its way. If that happens before the first byte of the answer, exchange
// sends the request again, once, on a new connection (RFC 9110 §9.2.2). It
// takes no kept connection for that, which may be closed as well. This repeat
// is not a second try, and the budget does not pay for it. Some servers send
// 408 when they close an idle connection. That is no answer to a request that
// they have not read (RFC 9110 §15.5.9).
func (c *client) exchange(ctx context.Context, u *url.URL, request []byte, sent *atomic.Int32) (*answer, error) {
	key := u.Scheme + "://" + u.Host
	if kept := c.take(key); kept != nil {
		a, seen, err := kept.roundTrip(ctx, request)
		unasked := err == nil && a.StatusCode == http.StatusRequestTimeout && a.Close && !kept.seen(io.EOF)
		if seen && !unasked {
			sent.Add(1)
		}
		switch {
		case unasked && !over(ctx):
			a.abandon()
		case err == nil || kept.answered || over(ctx):
			return a, err
		}
	}
	fresh, err := c.connect(ctx, u)
	if err != nil {
		return nil, &connectError{err}
	}
	a, seen, err := fresh.roundTrip(ctx, request)
	if seen {
		sent.Add(1)
	}
	return a, err
}

func (c *client) connect(ctx context.Context, u *url.URL) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = u.Scheme // net.Dial accepts the names http and https
	}
	dialled, err := c.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	raw := newCounted(dialled)
	if u.Scheme != "https" {
		return newConn(raw, raw, c.head), nil
	}
	cfg := c.tls.Clone()
	cfg.ServerName = u.Hostname()
	secure := tls.Client(raw, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return newConn(raw, secure, c.head), nil
}

// take returns a kept connection that is still usable, or nil.
func (c *client) take(key string) *conn {
	for {
		c.mu.Lock()
		list := c.idle[key]
		if len(list) == 0 {
			c.mu.Unlock()
			return nil
		}
		last := list[len(list)-1]
		c.removeLocked(key, last)
		c.mu.Unlock()
		last.timer.Stop()
		if last.pending() == quiet {
			return last
		}
		last.close()
	}
}

// put keeps a connection for the next request, or closes it. A connection that
// gets too old is closed, so that a busy endpoint's name is looked up again,
// too.
func (c *client) put(u *url.URL, k *conn) {
	key := u.Scheme + "://" + u.Host
	k.used = true
	idle := keepIdle
	if c.age > 0 {
		idle = min(idle, c.age-time.Since(k.born))
	}
	c.mu.Lock()
	keep := !c.closed && len(c.idle[key]) < c.most && idle > 0
	if keep {
		c.idle[key] = append(c.idle[key], k)
		k.timer = time.AfterFunc(idle, func() {
			c.mu.Lock()
			there := c.removeLocked(key, k)
			c.mu.Unlock()
			if there {
				k.close()
			}
		})
	}
	c.mu.Unlock()
	if !keep {
		k.close()
	}
}

func (c *client) removeLocked(key string, k *conn) bool {
	list := c.idle[key]
	for i := range list {
		if list[i] != k {
			continue
		}
		copy(list[i:], list[i+1:])
		list[len(list)-1] = nil
		if c.idle[key] = list[:len(list)-1]; len(list) == 1 {
			delete(c.idle, key)
		}
		return true
	}
	return false
}

// close closes idle connections, and later ones when they become idle.
func (c *client) close() {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.closed = nil, true
	c.mu.Unlock()
	for _, list := range idle {
		for _, k := range list {
			k.timer.Stop()
			k.close()
		}
	}
}

// over reports whether a context has ended or is just about to: connections
// have the same deadline, and may notice it first.
func over(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}
