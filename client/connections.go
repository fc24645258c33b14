package client

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// connections are those to all nodes. After a while they are replaced by new
// ones, whether or not they are ever idle: those in use end with their request.
type connections struct {
	prototype *http.Transport // of each generation
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
		// Clients that start together must not all dial at once.
		c.current, c.until = current, now.Add(c.age-time.Duration(rand.Float64()*0.2*float64(c.age)))
	}
	c.mu.Unlock()
	if old != nil {
		old.CloseIdleConnections() // and those that become idle
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
