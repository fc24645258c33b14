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
	// verify is asked at the end of the silence whether to go on watching. The try
	// goes on in any case; nil: it ends.
	verify func() bool
}

// errSilent is a time-out like the one at a try's end.
var errSilent = fmt.Errorf("the node answers nothing: %w", context.DeadlineExceeded)

// watch ends a try when patience does. A call that merely takes long does not
// look like a hung node as long as the node answers others.
type watch struct {
	node     *node
	patience patience
	epoch    time.Time
	begun    time.Duration // since epoch
	cancel   context.CancelCauseFunc

	mu    sync.Mutex // guards timer, which check may want before start has set it, and ended
	timer *time.Timer
	ended bool
}

func (w *watch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.next(), w.check)
}

// next is the time until the try should end, as things are; none is left if it
// is not positive.
func (w *watch) next() time.Duration {
	d := time.Until(w.patience.until)
	if w.patience.silence > 0 {
		d = min(d, w.quiet())
	}
	return d
}

// quiet is the time until the node has been silent for too long.
func (w *watch) quiet() time.Duration {
	return max(w.begun, time.Duration(w.node.heard.Load())) + w.patience.silence - time.Since(w.epoch)
}

func (w *watch) check() {
	switch d := w.next(); {
	case d > 0:
		w.again()
	case time.Now().Before(w.patience.until) && w.patience.verify != nil:
		if !w.patience.verify() {
			w.patience.silence = 0
		}
		w.again()
	case time.Now().Before(w.patience.until):
		w.cancel(errSilent)
	default:
		w.cancel(context.DeadlineExceeded)
	}
}

// again has check called at the next time that matters, unless the try has
// ended.
func (w *watch) again() {
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
