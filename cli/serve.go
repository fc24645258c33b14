package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
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
		Long: `Runs one node until SIGTERM or SIGINT. It then is not ready for half a second,
ends what is under way and exits. Another SIGTERM changes nothing, a SIGINT
(Ctrl-C) meanwhile exits at once. SIGHUP reads the configuration again: a change of
log.level takes effect, other changes are named in the log and need a restart, as
do those of the files that it names.

Each setting's value is that of its flag, else of its environment variable
(KRING_CACHE_MAX_BYTES for cache.max_bytes), else of the file, else the default.`,
		Example: `  kring serve
  kring serve --config config.yaml --node-id kring-1 --listen 127.0.0.1:8001
  KRING_CACHE_MAX_BYTES=1GiB kring serve
  kring serve --cluster-peers kring-1=http://127.0.0.1:8001,kring-2=http://127.0.0.1:8002 --node-id kring-2 --listen 127.0.0.1:8002`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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

// server is one run of the command.
type server struct {
	file   string
	flags  *pflag.FlagSet
	loaded *config.Loaded
	level  slog.LevelVar
	log    *slog.Logger
}

func (s *server) run(parent context.Context, stdout, stderr io.Writer) error {
	cfg := s.loaded.Config
	if err := s.startLog(stderr); err != nil {
		return err
	}
	limitMemory(cfg.Cache.MaxBytes, s.log)
	if err := cfg.Exposure(); err != nil {
		s.log.Warn("started with --insecure", "problem", err)
	}
	n, err := node.New(cfg, node.Options{Log: s.log, Version: version()})
	if errors.Is(err, node.ErrBind) {
		return &exitError{exitBind, err}
	}
	if err != nil {
		return s.loaded.Locate(err) // a file that the configuration names, or the like
	}
	ctx, stop := untilSignal(parent, stderr)
	defer stop()
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait.Go(func() { s.reloadOnHangup(ctx, n) })
	wait.Go(func() {
		<-ctx.Done()
		s.tell(daemon.SdNotifyStopping)
	})
	if _, err := fmt.Fprintln(stdout, readyLine(n, s.loaded)); err != nil {
		return failed(errors.Join(err, n.Stop(ctx)))
	}
	s.tell(daemon.SdNotifyReady)
	return failed(n.Run(ctx))
}

func (s *server) startLog(w io.Writer) error {
	if err := s.level.UnmarshalText([]byte(s.loaded.Config.Log.Level)); err != nil {
		return fmt.Errorf("log.level: %w", err)
	}
	options := &slog.HandlerOptions{Level: &s.level}
	if s.loaded.Config.Log.Format == "json" {
		s.log = slog.New(slog.NewJSONHandler(w, options))
	} else {
		s.log = slog.New(slog.NewTextHandler(w, options))
	}
	return nil
}

// readyLine says where the node is, who it is, and what it runs with.
func readyLine(n *node.Node, l *config.Loaded) string {
	id, view := n.Config().Node.ID, n.Peers().View()
	return fmt.Sprintf("kring ready: http://%s id=%s nodes=%d share=%.1f%% config=%s",
		n.Addr(), id, len(view.Members), 100*view.Share(id), cmp.Or(l.File, "built-in"))
}

// reloadOnHangup reads the configuration again at each SIGHUP.
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

// reload applies what can change in a running node. A configuration with a
// mistake changes nothing, and is the one that is not accepted.
func (s *server) reload() (accepted bool) {
	next, err := config.Load(s.file, s.flags)
	if err == nil {
		err = next.Locate(next.Config.CheckFiles())
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
	// What needs a restart is compared with what is in force, also next time.
	s.loaded.Config.Log.Level = next.Config.Log.Level
	if len(restart) > 0 {
		s.log.Warn("configuration reloaded, but some settings change with a restart only", "settings", restart)
		return true
	}
	s.log.Info("configuration reloaded", "log_level", next.Config.Log.Level)
	return true
}

// tell tells systemd, if it is there (Type=notify).
func (s *server) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("cannot notify systemd", "state", state, "error", err)
	}
}
