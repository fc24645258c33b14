package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kring/config"
)

// later are the commands that come with members chosen at run time.
var later = []string{"leave", "electors", "warm"}

// noArgs refuses arguments, and takes the first for a misspelt command where
// there are commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasParent() && slices.Contains(later, args[0]) {
		return fmt.Errorf("%s %s is not available in this version", cmd.CommandPath(), args[0])
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

// helpTopic refuses a command that does not exist.
func helpTopic(help *cobra.Command, args []string) error {
	found, rest, err := help.Root().Find(args)
	if err != nil || found == nil {
		return err
	}
	return noArgs(found, rest)
}

// elsewhere are the names that other programs have for a flag.
var elsewhere = map[string]string{
	"--port": "--listen", "--addr": "--listen", "--address": "--listen", "--bind": "--listen", "--host": "--listen",
	"--file": "--config", "--config-file": "--config", "--id": "--node-id", "--peers": "--cluster-peers",
	"--url": "--node", "--token": "--token-file",
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
	if meant, ok := elsewhere[name]; ok && slices.Contains(names, meant) {
		return fmt.Errorf("%w; did you mean %s?", err, meant)
	}
	return fmt.Errorf("%w%s", err, config.Suggest(name, names))
}
