package cli

import "github.com/spf13/cobra"

func newDelete() *cobra.Command {
	r := remote{writes: true}
	cmd := &cobra.Command{
		Use:   "delete GROUP KEY…",
		Short: "Remove the values of keys",
		Long: `Removes keys' values, whether or not there are any; in a group with an origin,
what is loaded next is new. Prints nothing. When it has ended with exit code 0,
no node answers with what was there.

` + keyHelp,
		Example: `  kring delete kv greeting
  kring delete docs user:1 user:2
  xargs -d '\n' kring delete docs -- <changed.keys`,
		Args: withGroup(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			defer c.Close()
			return r.eachKey(args[0], args[1:], func(key string) error {
				_, err := c.Delete(cmd.Context(), args[0], key)
				return err
			})
		},
	}
	r.valueFlags(cmd)
	return cmd
}
