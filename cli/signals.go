package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// untilSignal returns a context that ends with the first SIGTERM or SIGINT.
// After that a SIGINT, mostly a second Ctrl-C, ends the process at once: the
// user at the keyboard has waited enough. Another SIGTERM changes nothing:
// supervisors and scripts repeat it, and the requests in flight should still
// end. A supervisor without patience has SIGKILL. stop restores the signals.
// stderr must not make its writers wait.
func untilSignal(parent context.Context, stderr io.Writer) (ctx context.Context, stop func()) {
	if parent == nil {
		parent = context.Background()
	}
	outlivePipes()
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	stopped := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case s := <-signals:
				switch {
				case ctx.Err() == nil:
					cancel()
				case s == syscall.SIGINT:
					fmt.Fprintln(stderr, "kring: interrupted while stopping, exiting at once")
					exitAtOnce(stderr, exitFailed)
				default:
					fmt.Fprintln(stderr, "kring: stopping already; interrupt (Ctrl-C) to exit at once")
				}
			case <-stopped:
				return
			}
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		wait.Wait()
		cancel()
	}
}
