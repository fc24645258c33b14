package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kring/config"
	"kring/node"
)

func newServe() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Runs one node until SIGTERM or SIGINT. The node is then not ready for half a
second, ends the requests in flight and exits. Another SIGTERM changes nothing; a
SIGINT (Ctrl-C) meanwhile exits at once. SIGHUP reads the configuration again: a
change of log.level takes effect. Other changes need a restart, and so do changes
of the files that the configuration names; the log names the settings.

Each setting's value is that of its flag, else of its environment variable
(KRING_CACHE_MAX_BYTES for cache.max_bytes), else of the file, else the default.`,
		Example: `  kring serve
  kring serve --config config.yaml --node-id kring-1 --listen 127.0.0.1:8001
  KRING_CACHE_MAX_BYTES=1GiB kring serve
  kring serve --cluster-peers kring-1=http://127.0.0.1:8001,kring-2=http://127.0.0.1:8002 --node-id kring-2 --listen 127.0.0.1:8002`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			outlivePipes()
			loaded, err := config.Load(file, cmd.Flags())
			if err != nil {
				return err
			}
			s := &server{file: file, flags: cmd.Flags(), loaded: loaded}
			return s.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	configFlag(cmd, &file)
	config.AddFlags(cmd.Flags())
	return cmd
}

// server is one run of the command serve.
type server struct {
	file   string
	flags  *pflag.FlagSet
	loaded *config.Loaded
	level  slog.LevelVar
	log    *slog.Logger
}

func (s *server) run(parent context.Context, stdout, stderr io.Writer) (err error) {
	out, errs := linesTo(stdout), linesTo(stderr)
	defer out.flush()
	if err := s.startLog(errs); err != nil {
		return err
	}
	defer func() {
		if err != nil && s.json() {
			s.log.Error("failed", "error", oneLine(err.Error()))
			err = &loggedError{err}
		}
	}()
	cfg := s.loaded.Config
	limitMemory(cfg.Cache.MaxBytes, s.log)
	if err := cfg.Exposure(); err != nil {
		s.log.Warn("started with --insecure", "problem", err)
	}
	n, err := node.New(cfg, node.Options{
		Log: s.log, Version: version(),
		LinesDropped: func() uint64 { return out.Dropped() + errs.Dropped() },
	})
	if errors.Is(err, node.ErrBind) {
		return &exitError{exitBind, s.loaded.Explain("node.listen", err)}
	}
	if err != nil {
		return s.loaded.Locate(err) // for example a missing file that the configuration names
	}
	ctx, stop := untilSignal(parent, s.asides(errs))
	defer stop()
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait.Go(func() { s.reloadOnHangup(ctx, n) })
	wait.Go(func() { s.tellSystemd(ctx) })
	s.sayReady(out, n)
	if err := n.Run(ctx); err != nil {
		return failed(err)
	}
	s.log.Info("stopped")
	return nil
}

// linesTo turns w into a lineWriter.
func linesTo(w io.Writer) *lineWriter {
	if l, ok := w.(*lineWriter); ok {
		return l
	}
	return newLineWriter(w)
}

// startLog opens the log, also for libraries that log by themselves.
func (s *server) startLog(errs *lineWriter) error {
	if err := s.level.UnmarshalText([]byte(s.loaded.Config.Log.Level)); err != nil {
		return fmt.Errorf("log.level: %w", err)
	}
	s.log = slog.New(s.handler(errs, &s.level))
	slog.SetDefault(s.log)
	errs.setNotice(func(lost uint64) []byte {
		var line bytes.Buffer
		slog.New(s.handler(&line, slog.LevelWarn)).Warn(linesDropped(lost))
		return line.Bytes()
	})
	return nil
}

func (s *server) json() bool { return s.loaded.Config.Log.Format == "json" }

func (s *server) handler(w io.Writer, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if s.json() {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

// asides is where lines besides the log go: to stderr, or into the log if that
// is JSON.
func (s *server) asides(errs *lineWriter) io.Writer {
	if !s.json() {
		return errs
	}
	return loggedLines{slog.NewLogLogger(s.log.Handler(), slog.LevelWarn).Writer(), errs}
}

// loggedLines turns each line into a log record.
type loggedLines struct {
	io.Writer
	errs *lineWriter
}

func (l loggedLines) flush() { l.errs.flush() }

// sayReady writes the node's URL, id, share and configuration to stdout.
func (s *server) sayReady(out io.Writer, n *node.Node) {
	id, view := n.Config().Node.ID, n.Peers().View()
	share := view.Share(id)
	url, file := "http://"+n.Addr().String(), cmp.Or(s.loaded.File, "built-in")
	if s.json() {
		slog.New(s.handler(out, slog.LevelInfo)).Info("kring ready", "url", url, "id", id,
			"nodes", len(view.Members), "share", math.Round(1000*share)/1000, "config", file)
		return
	}
	fmt.Fprintf(out, "kring ready: %s id=%s nodes=%d share=%.1f%% config=%s\n", url, id, len(view.Members), 100*share, file)
}

// reloadOnHangup reloads the configuration at each SIGHUP.
func (s *server) reloadOnHangup(ctx context.Context, n *node.Node) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			n.Reloaded(s.reload())
		}
	}
}

// reload applies the settings that a running node can change. A configuration
// with a mistake changes nothing and is not accepted.
func (s *server) reload() (accepted bool) {
	next, err := config.Load(s.file, s.flags)
	if err == nil {
		err = next.CheckFiles()
	}
	if err != nil {
		s.log.Error("reload refused, the old configuration stays in force", "error", err)
		return false
	}
	var restart []string
	for _, path := range config.Changed(s.loaded, next) {
		if path != "log.level" {
			restart = append(restart, path)
		}
	}
	if err := s.level.UnmarshalText([]byte(next.Config.Log.Level)); err != nil {
		s.log.Error("reload refused, the old configuration stays in force", "error", err)
		return false
	}
	// The next reload must compare with the settings that are in force.
	s.loaded.Config.Log.Level = next.Config.Log.Level
	if len(restart) > 0 {
		s.log.Warn("configuration reloaded, but some settings need a restart", "settings", restart)
		return true
	}
	s.log.Info("configuration reloaded", "log_level", next.Config.Log.Level)
	return true
}

// tellSystemd says that the node is ready and, when ctx ends, that it is
// stopping.
func (s *server) tellSystemd(ctx context.Context) {
	for _, state := range []string{"READY=1", "STOPPING=1"} {
		if err := notifySystemd(state); err != nil {
			s.log.Warn("cannot notify systemd", "state", state, "error", err)
		}
		<-ctx.Done()
	}
}
