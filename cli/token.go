package cli

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"
)

func newToken() *cobra.Command {
	return &cobra.Command{
		Use:   "token",
		Short: "Make a client's token",
		Long: `Prints a new random token and, on a second line, its hash. The client sends the
first as "Authorization: Bearer TOKEN". The second goes into the file that an
item of auth.tokens names, so that the node does not hold the token itself.`,
		Example: `  kring token > new && head -1 new > client.token && tail -1 new > ops.hash
  # config.yaml: auth: {tokens: [{name: ops, token_file: ops.hash, role: admin}]}`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token := "kring-" + rand.Text()
			sum := sha256.Sum256([]byte(token))
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\nsha256:%s\n", token, hex.EncodeToString(sum[:]))
			return failed(err)
		},
	}
}
