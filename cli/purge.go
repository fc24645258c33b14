package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

func newPurge() *cobra.Command {
	r := remote{writes: true}
	var tags []string
	cmd := &cobra.Command{
		Use:   "purge GROUP [--tag TAG]…",
		Short: "Remove a whole group, or the values with a tag, on every node",
		Long: `Without --tag, removes all values of the group. With --tag, removes the values to
which the origin gave one of the tags (Cache-Tag, Surrogate-Key). Prints nothing.
Needs a token of the role admin. Exit code 1 if a node did not confirm the purge:
stderr names the node, which may still hold old values.`,
		Example: `  kring purge docs --tag product-42 --tag product-43
  kring purge docs     # all of it
  kring purge docs --node http://10.0.0.1:8001 --token-file admin.token`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && !looksLikeURL(args[1]) {
				return fmt.Errorf("%s takes one group, but there is %q; did you mean --tag %[2]s?", cmd.CommandPath(), args[1])
			}
			return withGroup(0, 0)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// An empty tag, perhaps of a script's empty variable, must not
			// purge everything.
			if slices.Contains(tags, "") {
				return errors.New(`--tag: TAG must not be empty`)
			}
			c, err := r.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if cmd.Flags().Changed("tag") {
				return r.outcome(args[0], c.PurgeTags(cmd.Context(), args[0], tags...))
			}
			return r.outcome(args[0], c.Purge(cmd.Context(), args[0]))
		},
	}
	cmd.DisableFlagsInUseLine = true
	r.valueFlags(cmd)
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "remove only values with this `TAG`; may be given several times")
	return cmd
}
