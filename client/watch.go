package client

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// patience is how long a try may take.
type patience struct {
	until   time.Time
	silence time.Duration // longest time without any answer of the node; 0: any
	// At the end of the silence, watch calls verify. true means that the node
	// answers after all: the watch goes on. false ends the watch for silence.
	// The try goes on in both cases. Without verify the try ends.
	verify func() bool
}

// errSilent is a time-out, like the error at a try's end.
var errSilent = fmt.Errorf("the node answers nothing: %w", context.DeadlineExceeded)

// watch ends a try when its patience is over. A long call does not make the
// node look hung as long as the node answers other calls.
type watch struct {
	node        *node
	patience    patience
	clientStart time.Time
	begun       time.Duration // since clientStart
	cancel      context.CancelCauseFunc

	mu    sync.Mutex // guards timer, which check may want before start has set it, and ended
	timer *time.Timer
	ended bool
}

func (w *watch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.next(), w.check)
}

// next is the time until the try should end. If it is not positive, the time is
// over.
func (w *watch) next() time.Duration {
	d := time.Until(w.patience.until)
	if w.patience.silence > 0 {
		d = min(d, w.silenceLeft())
	}
	return d
}

// silenceLeft is the time until the node has been silent for too long.
func (w *watch) silenceLeft() time.Duration {
	return max(w.begun, time.Duration(w.node.heard.Load())) + w.patience.silence - time.Since(w.clientStart)
}

func (w *watch) check() {
	switch d := w.next(); {
	case d > 0:
		w.rearm()
	case time.Now().Before(w.patience.until) && w.patience.verify != nil:
		if !w.patience.verify() {
			w.patience.silence = 0
		}
		w.rearm()
	case time.Now().Before(w.patience.until):
		w.cancel(errSilent)
	default:
		w.cancel(context.DeadlineExceeded)
	}
}

// rearm schedules the next check, unless the try has ended.
func (w *watch) rearm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.timer.Reset(max(0, w.next()))
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}
