package cli

import "github.com/spf13/cobra"

func newDelete() *cobra.Command {
	r := remote{writes: true}
	cmd := &cobra.Command{
		Use:   "delete GROUP KEY…",
		Short: "Remove the values of keys",
		Long: `Removes the values of keys; a key without a value is no error. In a group with an
origin, the next get loads a new value. Prints nothing. After exit code 0 no node
answers with an old value.

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
