package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newHealth() *cobra.Command {
	var r remote
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a node whether it is alive, or ready",
		Long: `Exit code 0: alive (with --ready: ready to serve). Exit code 1: not, or no answer;
stderr says why. Made for a container's HEALTHCHECK.`,
		Example: `  kring health
  kring health --node http://127.0.0.1:8002 --ready`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			body, err := r.get(cmd.Context(), path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(string(body)))
			return failed(err)
		},
	}
	r.flags(cmd)
	configFlag(cmd, &r.file)
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether the node is ready to serve")
	return cmd
}
