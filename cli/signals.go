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

// untilSignal returns a context that ends with the first SIGTERM or SIGINT. A
// second one ends the process at once: whoever sends it has waited enough.
// stop gives the signals back.
func untilSignal(parent context.Context, stderr io.Writer) (ctx context.Context, stop func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	stopped := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for range 2 {
			select {
			case s := <-signals:
				if ctx.Err() != nil {
					fmt.Fprintf(stderr, "kring: second signal (%s), exiting at once\n", s)
					os.Exit(exitFailed)
				}
				cancel()
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
