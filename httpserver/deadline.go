package httpserver

import (
	"context"
	"sync"
	"time"
)

// LazyDeadline is a context that ends at a time, like that of context.WithDeadline,
// but sets a timer only when somebody waits for it: a hit never does, and the
// timer would be a good part of its cost. Stop must be called at the end.
type LazyDeadline struct {
	context.Context           // the parent
	At              time.Time // when it ends

	// mu guards the rest. inner and cancel are made when somebody waits.
	mu     sync.Mutex
	inner  context.Context
	cancel context.CancelFunc
	ended  bool
}

// Deadline is the earlier one of At and the parent's.
func (d *LazyDeadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.At) {
		return at, true
	}
	return d.At, true
}

// Done sets the timer.
func (d *LazyDeadline) Done() <-chan struct{} { return d.make().Done() }

// Err agrees with Done once somebody has called Done. Before that the clock
// decides.
func (d *LazyDeadline) Err() error {
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
	if !time.Now().Before(d.At) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value goes through the inner context where there is one. Package context finds
// there that it can cancel children without a goroutine for each.
func (d *LazyDeadline) Value(key any) any {
	d.mu.Lock()
	inner := d.inner
	d.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return d.Context.Value(key)
}

func (d *LazyDeadline) make() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner == nil {
		d.inner, d.cancel = context.WithDeadline(d.Context, d.At)
		if d.ended {
			d.cancel()
		}
	}
	return d.inner
}

// Stop ends the context and frees what it has. It may be called twice.
func (d *LazyDeadline) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
