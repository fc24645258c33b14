package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kring/loadgen"
)

type loadFlags struct {
	cfg           loadgen.Config
	write, remove string // shares
	tokenFile     string
	asJSON        bool
	report        string
	scenario      string
}

func newLoad() *cobra.Command {
	f := loadFlags{cfg: loadgen.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "load --nodes URL,URL --group G [--keys …]",
		Short: "Load a cluster and check its answers",
		Long: `Sends requests to a cluster, shows how fast they were answered and from where, and
checks that the nodes' books balance with one another and with --origin.

--keys is uniform:N, zipf:S:N (rank k has a probability in proportion to k^-S), or
a file of keys, one a line, optionally with a tab and a size. A file is streamed;
with --duration or --count it is repeated until the end. Without --rate there are
always --concurrency requests in flight (closed loop). With --rate requests are due
at that rate, whatever the answers do, and a latency counts from the moment when
the request was due (open loop).

--verify checks that each body is whole and belongs to its key, which the documents
of 'kring origin' prove, and that no write is undone. A failed try that another
node answers is a retry, not an error. An unknown group or a refused token ends the
run. Ctrl-C ends the run with its report. The exit code is 1 if a request failed, a
body was wrong or the books do not balance. The verdict also names things that a
healthy cluster does not do, though they fail nothing: nodes that did not answer,
requests sent again, answers far slower than the run's own median, a rate that was
not reached, books that could not be checked.

--scenario rehearses the failures that a cache exists to prevent. It needs a
cluster whose origin is --origin, a 'kring origin', and sets that origin's
behaviour: avalanche (many keys expire together), breakdown (a hot key expires),
penetration (a flood of keys that do not exist), stampede (many clients want one
key at once). Counts decide; times are only shown. --count is the number of keys,
or of clients for stampede. --rate and --duration are those of breakdown's reads.
A scenario has its own keys and does not use --keys.

--report writes the result of either as a page (HTML).`,
		Example: `  kring load --nodes http://127.0.0.1:8001,http://127.0.0.1:8002 --group docs \
    --keys zipf:1.1:10000 --duration 30s --origin http://127.0.0.1:8100 --verify
  kring load --nodes http://127.0.0.1:8001 --group kv --write 5% --delete 1% --rate 2000 --report run.html
  kring load --nodes http://127.0.0.1:8001 --group docs --keys web07.keys.gz --json
  kring load --nodes http://127.0.0.1:8001,http://127.0.0.1:8002 --group docs \
    --origin http://127.0.0.1:8100 --scenario stampede --report stampede.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.cfg.Nodes, "nodes", nil, "`URLS` of the entry nodes, comma-separated")
	flags.StringVar(&f.cfg.Group, "group", "", "`NAME` of the group")
	flags.StringVar(&f.cfg.Keys, "keys", f.cfg.Keys, "uniform:N, zipf:S:N or `FILE`[.gz]")
	flags.IntVar(&f.cfg.Concurrency, "concurrency", f.cfg.Concurrency, "requests in flight at most")
	flags.Float64Var(&f.cfg.Rate, "rate", 0, "requests a second (open loop); 0: a closed loop")
	flags.DurationVar(&f.cfg.Duration, "duration", 0, "end after this time (default 10s, or once through the file)")
	flags.Int64Var(&f.cfg.Count, "count", 0, "end after this many requests")
	flags.StringVar(&f.write, "write", "0%", "`SHARE` of puts")
	flags.StringVar(&f.remove, "delete", "0%", "`SHARE` of deletes")
	flags.IntVar(&f.cfg.ValueSize, "value-size", f.cfg.ValueSize, "`BYTES` of padding in put values, where a file has no size")
	flags.StringVar(&f.cfg.Policy, "policy", f.cfg.Policy, "how entry nodes are chosen: round_robin, weighted, smooth_weighted, least_assigned or least_in_flight")
	flags.DurationVar(&f.cfg.Timeout, "timeout", f.cfg.Timeout, "longest wait for an answer, retries included")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token to send (or the environment's KRING_TOKEN)")
	flags.StringVar(&f.cfg.Origin, "origin", "", "`URL` of the demo origin; its loads are compared with the books")
	flags.BoolVar(&f.cfg.Verify, "verify", false, "check every body")
	flags.Uint64Var(&f.cfg.Seed, "seed", 0, "makes the choice of keys repeatable; 0: a random choice")
	flags.BoolVar(&f.asJSON, "json", false, "print the result as JSON")
	flags.StringVar(&f.scenario, "scenario", "", "run the scenario `NAME` instead: "+strings.Join(loadgen.Scenarios(), ", "))
	flags.StringVar(&f.report, "report", "", "write a page (HTML) with plots to `FILE`")
	return cmd
}

func (f *loadFlags) run(cmd *cobra.Command) (err error) {
	if f.cfg.Write, err = loadgen.ParseShare(f.write); err != nil {
		return fmt.Errorf("--write: %w", err)
	}
	if f.cfg.Delete, err = loadgen.ParseShare(f.remove); err != nil {
		return fmt.Errorf("--delete: %w", err)
	}
	for i, n := range f.cfg.Nodes {
		if n = strings.TrimSpace(n); !strings.Contains(n, "://") {
			n = "http://" + n
		}
		f.cfg.Nodes[i] = n
	}
	if f.cfg.Token, err = (&remote{tokenFile: f.tokenFile}).token(); err != nil {
		return err
	}
	if err := f.cfg.Validate(); err != nil {
		return err
	}
	if f.scenario != "" {
		if err := f.checkScenario(cmd); err != nil {
			return err
		}
	}
	// The file is created before the run, so that an error shows at once.
	report, err := createReport(f.report)
	if err != nil {
		return err
	}
	errOut := cmd.ErrOrStderr()
	f.cfg.Progress, f.cfg.Terminal = errOut, isTerminal(errOut)
	f.cfg.Command, f.cfg.Version = cmd.Root().Annotations[commandLine], version()
	ctx, stop := untilSignal(cmd.Context(), errOut)
	defer stop()
	result, err := f.load(ctx)
	if err != nil {
		return errors.Join(err, report.discard())
	}
	return errors.Join(failed(f.print(cmd.OutOrStdout(), result)), failed(report.write(result, errOut)), failed(result.Err()))
}

// outcome is the result of a load or of a scenario.
type outcome interface {
	WriteText(out io.Writer) error
	WriteHTML(out io.Writer) error
	Err() error
}

func (f *loadFlags) load(ctx context.Context) (outcome, error) {
	if f.scenario == "" {
		result, err := loadgen.Run(ctx, f.cfg)
		return result, failed(err)
	}
	verdict, err := loadgen.RunScenario(ctx, f.scenario, f.cfg)
	if errors.Is(err, loadgen.ErrUnfit) {
		return nil, err // the user's mistake, found by a first request
	}
	return verdict, failed(err)
}

// checkScenario refuses flags that a scenario does not have.
func (f *loadFlags) checkScenario(cmd *cobra.Command) error {
	for _, name := range []string{"write", "delete"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s: cannot be combined with --scenario", name)
		}
	}
	if cmd.Flags().Changed("keys") {
		fmt.Fprintln(cmd.ErrOrStderr(), "--keys is ignored: a scenario has its own keys")
	}
	switch {
	case !slices.Contains(loadgen.Scenarios(), f.scenario):
		return fmt.Errorf("--scenario: %q: must be one of %s", f.scenario, strings.Join(loadgen.Scenarios(), ", "))
	case f.cfg.Origin == "":
		return errors.New(`--origin: "": a scenario needs the demo origin`)
	}
	return nil
}

func (f *loadFlags) print(out io.Writer, result outcome) error {
	if f.asJSON {
		return writeJSON(out, result)
	}
	return result.WriteText(out)
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// reportFile is the file of the page; its file is nil without --report.
type reportFile struct{ file *os.File }

func createReport(name string) (*reportFile, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--report: %w", err)
	}
	return &reportFile{file}, nil
}

func (r *reportFile) write(result outcome, stderr io.Writer) error {
	if r == nil {
		return nil
	}
	if err := errors.Join(result.WriteHTML(r.file), r.file.Close()); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	_, err := fmt.Fprintf(stderr, "report written to %s\n", r.file.Name())
	return err
}

// discard removes the file of a run that did not take place.
func (r *reportFile) discard() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.file.Close(), os.Remove(r.file.Name()))
}

func isTerminal(w io.Writer) bool {
	if l, ok := w.(*lineWriter); ok {
		w = l.out
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
