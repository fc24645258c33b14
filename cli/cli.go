// Package cli is the command line of kring: one file for each command.
package cli

import (
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kring/config"
)

// The exit codes.
const (
	exitClean  = 0
	exitFailed = 1 // failed while running
	exitUsage  = 2 // usage or configuration
	exitBind   = 3 // cannot listen
)

// exitError is an error with the exit code of the process.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// mistakes are the errors inside err. Each one gets a line.
func mistakes(err error) []error {
	if several, ok := errors.AsType[config.Mistakes](err); ok {
		return several
	}
	return []error{err}
}

// loggedError marks an error that is already in the log.
type loggedError struct{ error }

func (e *loggedError) Unwrap() error { return e.error }

// failed marks an error of a running command. All other errors are the user's:
// wrong flags, arguments or settings.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitFailed, err}
}

// Main runs kring with its arguments, without the program's name, and returns
// the exit code: 0 clean, 1 failed while running, 2 usage or configuration, 3
// cannot listen. An error is one line on stderr, or one line for each mistake
// in the configuration. Only the end of the process waits for the reader of
// stderr, for a second.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	lines := newLineWriter(stderr)
	defer lines.flush()
	log.SetOutput(lines) // for libraries; slog's handlers write past it
	root := newRoot()
	root.SetArgs(args)
	root.Annotations = map[string]string{commandLine: typed(args)}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(lines)
	err := root.Execute()
	if err == nil {
		return exitClean
	}
	outlivePipes() // the exit code counts even if stderr has no reader
	if _, logged := errors.AsType[*loggedError](err); !logged {
		for _, err := range mistakes(err) {
			fmt.Fprintln(lines, "kring: "+oneLine(err.Error()))
		}
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	return exitUsage
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "kring",
		Short: "A distributed read-through HTTP cache",
		Long: `Kring is a distributed read-through cache that runs as a server. A few nodes
form one cache in front of slow HTTP origins: any client asks any node for a
key, and the node that owns it answers from memory or loads it once.`,
		Example: `  kring serve                                     # one useful node on 127.0.0.1:8001
  kring put kv greeting 'hello, ring'             # in another terminal
  kring get kv greeting
  curl http://127.0.0.1:8001/v1/cache/kv/greeting # the same over HTTP`,
		// SetVersionTemplate is not used: a template keeps the linker from
		// dropping unused methods, and doubles the program's size.
		Version:       strings.TrimPrefix(versionLine(), "kring "),
		SilenceUsage:  true,
		SilenceErrors: true,
		// Args makes a misspelt command an error of one line.
		Args:              noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return failed(cmd.Help()) },
		PersistentPreRunE: noEmptyFlags,
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newServe(), newOrigin(), newGet(), newPut(), newDelete(), newPurge(), newRing(), newStatus(), newHealth(),
		newToken(), newConfig(), newLoad(), newVersion(),
	)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			// Cobra's own prints the help for an unknown shell, and no error.
			c.Args = noArgs
			c.RunE = func(cmd *cobra.Command, _ []string) error { return failed(cmd.Help()) }
		case "help":
			c.Args = helpTopic
		}
	}
	return root
}

// noEmptyFlags refuses --node "$UNSET". An empty flag would count as an absent
// one, and the command would do something else. Settings are excepted: the
// configuration validates them.
func noEmptyFlags(cmd *cobra.Command, _ []string) (err error) {
	mayBe := []string{"cache-control", "content-type", "missing", "version"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" && !slices.Contains(mayBe, f.Name) {
			what, _ := pflag.UnquoteUsage(f)
			err = fmt.Errorf("--%s: %s must not be empty", f.Name, what)
		}
	})
	return err
}

// commandLine is the key of the root command's annotation with the command
// line, for reports.
const commandLine = "command line"

// typed is the command line in a form that a shell accepts.
func typed(args []string) string {
	line := []string{"kring"}
	for _, arg := range args {
		plain := arg != "" && !strings.ContainsFunc(arg, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,=@%+", r))
		})
		if !plain {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		line = append(line, arg)
	}
	return strings.Join(line, " ")
}

// oneLine joins a message of several lines into one.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
