package httpapi

import (
	"context"
	"sync"
	"time"

	"kring/cache"
)

// deadline is a context that ends at a time, like context.WithDeadline's, but
// sets a timer only when somebody waits for it: a hit never does, and the timer
// would be a good part of its cost.
type deadline struct {
	context.Context
	at time.Time
	id string // of the request

	// mu guards inner and cancel, which are made when first needed, and ended.
	mu     sync.Mutex
	inner  context.Context
	cancel context.CancelFunc
	ended  bool
}

func withDeadline(parent context.Context, at time.Time) *deadline {
	return &deadline{Context: parent, at: at}
}

func (d *deadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

func (d *deadline) Done() <-chan struct{} { return d.make().Done() }

// Err agrees with Done once somebody has asked for it; before that the clock
// decides.
func (d *deadline) Err() error {
	d.mu.Lock()
	inner, ended := d.inner, d.ended
	d.mu.Unlock()
	if inner != nil {
		return inner.Err()
	}
	if ended {
		return context.Canceled
	}
	if err := d.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(d.at) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value goes through the inner context where there is one: package context
// finds there that it can cancel children without a goroutine for each.
func (d *deadline) Value(key any) any {
	if _, ok := key.(cache.RequestIDKey); ok && d.id != "" {
		return d.id
	}
	d.mu.Lock()
	inner := d.inner
	d.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return d.Context.Value(key)
}

func (d *deadline) make() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner == nil {
		d.inner, d.cancel = context.WithDeadline(d.Context, d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.inner
}

// stop ends the context and frees what it holds.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
