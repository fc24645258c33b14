package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kring/config"
)

// noArgs refuses arguments, and takes the first for a misspelt command where
// there are commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if len(names) == 0 {
		return fmt.Errorf("%s takes no arguments, but there is %q", cmd.CommandPath(), args[0])
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), config.Suggest(args[0], names))
}

// flagError adds which flag was meant.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	name := "--" + strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
	return fmt.Errorf("%w%s", err, config.Suggest(name, names))
}
