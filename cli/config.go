package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"kring/config"
)

const builtIn = "built-in defaults"

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or print the configuration",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return failed(cmd.Help()) },
	}
	cmd.AddCommand(newConfigCheck(), newConfigPrint())
	return cmd
}

// configFlag adds --config.
func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "configuration `FILE` (default config.yaml, if it exists)")
}

func newConfigCheck() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for mistakes in the configuration",
		Long: `Reads file, environment and flags as serve does, and the files that they name:
tokens, certificates, header values, the Redis password. Each mistake is one line,
and the exit code is 2. Too little memory on this machine is only a warning. A file
that several nodes share need not have a node.id.`,
		Example: "  kring config check --config /etc/kring/config.yaml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := config.Check(file, cmd.Flags())
			if err != nil {
				return err
			}
			if err := l.CheckFiles(); err != nil {
				return err
			}
			if problem := tooLittleMemory(l.Config.Cache.MaxBytes, availableMemory()); problem != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "kring: warning: "+problem)
			}
			whose := ""
			if l.Config.Shared() {
				whose = ", for each of its nodes: --node-id or KRING_NODE_ID says which"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok%s\n", cmp.Or(l.File, builtIn), whose)
			return failed(err)
		},
	}
	configFlag(cmd, &file)
	config.AddFlags(cmd.Flags())
	return cmd
}

func newConfigPrint() *cobra.Command {
	var file string
	var changed bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every setting and where its value came from",
		Long: `Prints the configuration as a file that can be loaded again, except for the
secrets, which are masked. A comment behind each value says where it came from: a
flag, the environment, the file or the default.`,
		Example: "  KRING_CACHE_MAX_BYTES=1GiB kring config print --changed",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := config.Check(file, cmd.Flags())
			if err != nil {
				return err
			}
			if changed {
				return failed(l.PrintChanged(cmd.OutOrStdout()))
			}
			return failed(l.Print(cmd.OutOrStdout()))
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&changed, "changed", false, "only what differs from the defaults")
	config.AddFlags(cmd.Flags())
	return cmd
}
