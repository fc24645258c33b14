package client

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// connections are the connections to all nodes. They are replaced when they
// reach their age, even if they are never idle. A replaced connection ends
// after its request.
type connections struct {
	prototype *http.Transport // copied for each generation
	age       time.Duration

	mu      sync.Mutex // guards current and until
	current *http.Transport
	until   time.Time
}

// RoundTrip sends a request over a connection of the current generation.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.generation(time.Now()).RoundTrip(r)
}

func (c *connections) generation(now time.Time) *http.Transport {
	c.mu.Lock()
	old, current := (*http.Transport)(nil), c.current
	if current == nil || !now.Before(c.until) {
		old, current = current, c.prototype.Clone()
		// The random part keeps clients that start together from dialling at
		// the same time.
		c.current, c.until = current, now.Add(c.age-time.Duration(rand.Float64()*0.2*float64(c.age)))
	}
	c.mu.Unlock()
	if old != nil {
		old.CloseIdleConnections() // and later those that become idle
	}
	return current
}

func (c *connections) close() {
	c.mu.Lock()
	current := c.current
	c.mu.Unlock()
	if current != nil {
		current.CloseIdleConnections()
	}
}
