package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"kring/origin/demo"
)

type originFlags struct {
	listen, dir, version, missing string
	cacheControl                  string
	latency, jitter               time.Duration
	errorRate                     float64
	size                          int
}

func newOrigin() *cobra.Command {
	var f originFlags
	cmd := &cobra.Command{
		Use:   "origin",
		Short: "Run a slow demo origin that counts its loads",
		Long: `Serves a document for every key at /docs/KEY and /search?q=KEY, or with --dir the
files of that directory: DIR/a/b.txt at /docs/a/b.txt. An answer takes 100 ms
unless --latency says otherwise, so that a hit of a cache in front of it is easy to
see. The origin can fail, lack keys or change its version, and it counts its
requests:

  GET /_/stats, GET /_/stats/KEY    the counts; DELETE /_/stats starts them anew
  GET /_/windows                    the counts over time, in tenths of a second
  GET /_/control, PUT /_/control    the behaviour; a PUT changes what it names`,
		Example: `  kring origin --latency 300ms --jitter 50ms
  curl http://127.0.0.1:8100/docs/user:42
  curl -X PUT -d '{"latency":"2s","error_rate":0.5,"missing":"^gone-"}' http://127.0.0.1:8100/_/control`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8100", "`ADDRESS` to listen on")
	flags.StringVar(&f.dir, "dir", "", "serve the files of `DIR` at /docs/PATH instead of documents")
	flags.DurationVar(&f.latency, "latency", 100*time.Millisecond, "least time that each answer takes")
	flags.DurationVar(&f.jitter, "jitter", 0, "random time added to --latency, at most")
	flags.Float64Var(&f.errorRate, "error-rate", 0, "share of requests that fail, 0 to 1")
	flags.StringVar(&f.missing, "missing", "", "keys that are missing: a `SHARE` (20%) or a regular expression")
	flags.IntVar(&f.size, "size", 100, "`BYTES` of padding in each document")
	flags.StringVar(&f.version, "version", "1", "version of the documents")
	flags.StringVar(&f.cacheControl, "cache-control", "", "the header Cache-Control of the answers, such as `max-age=5`")
	return cmd
}

func (f originFlags) run(cmd *cobra.Command) (err error) {
	missing, err := demo.ParseMissing(f.missing)
	if err != nil {
		return fmt.Errorf("--missing: %w", err)
	}
	outlivePipes()
	stdout := newLineWriter(cmd.OutOrStdout())
	defer stdout.flush()
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	slog.SetDefault(log)
	origin, err := demo.New(demo.Options{Dir: f.dir, Log: log, Control: demo.Control{
		Latency: demo.Duration(f.latency), Jitter: demo.Duration(f.jitter), ErrorRate: f.errorRate,
		Version: demo.Version(f.version), Missing: missing, Size: f.size,
		CacheControl: f.cacheControl,
	}})
	if err != nil {
		return fmt.Errorf("origin: %w", err)
	}
	defer func() { err = errors.Join(err, failed(origin.Close())) }()

	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		err = fmt.Errorf("--listen: %q: %w", f.listen, err)
		if _, tried := errors.AsType[*os.SyscallError](err); tried {
			return &exitError{exitBind, err}
		}
		return err // not an address
	}
	server := &http.Server{
		Handler:           origin,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ctx, stop := untilSignal(cmd.Context(), cmd.ErrOrStderr())
	defer stop()
	serveErr := make(chan error, 1)
	go func() { serveErr <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "kring origin ready: http://%s serves %s at /docs/KEY\n", listener.Addr(), cmp.Or(f.dir, "documents"))
	select {
	case err := <-serveErr:
		return failed(err)
	case <-ctx.Done():
	}
	// The operator wants the origin to stop, so it does not wait for slow
	// answers.
	grace, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
		return failed(errors.Join(err, ignoreClosed(<-serveErr)))
	} else if err != nil {
		return failed(errors.Join(err, ignoreClosed(<-serveErr)))
	}
	return failed(ignoreClosed(<-serveErr))
}

// ignoreClosed turns the error of a server that was shut down into nil.
func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
