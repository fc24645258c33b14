package cli

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kring/config"
)

// later are commands of a later version, which chooses members at run time.
var later = []string{"leave", "electors", "warm"}

// noArgs refuses arguments. In a command with subcommands the first argument is
// a misspelt one.
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
		return fmt.Errorf("%s takes no arguments, but there is %q%s", cmd.CommandPath(), args[0], meantAsFlag(cmd, args[0]))
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), config.Suggest(args[0], names))
}

// meantAsFlag names the flag that an argument was meant for, if it is an
// address or a configuration file.
func meantAsFlag(cmd *cobra.Command, arg string) string {
	var names []string
	switch {
	case looksLikeURL(arg):
		names = []string{"node", "nodes", "listen"}
	case strings.HasSuffix(arg, ".yaml"), strings.HasSuffix(arg, ".yml"):
		names = []string{"config"}
	}
	for _, name := range names {
		if cmd.Flags().Lookup(name) != nil {
			return fmt.Sprintf("; did you mean --%s %s?", name, arg)
		}
	}
	return ""
}

// looksLikeURL accepts what people write for a node: a URL, or host and port.
func looksLikeURL(arg string) bool {
	if strings.Contains(arg, "://") {
		return true
	}
	_, port, err := net.SplitHostPort(arg)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// helpTopic refuses an unknown command.
func helpTopic(help *cobra.Command, args []string) error {
	found, rest, err := help.Root().Find(args)
	if err != nil || found == nil {
		return err
	}
	return noArgs(found, rest)
}

// elsewhere maps names of flags in other programs to ours.
var elsewhere = map[string]string{
	"--port": "--listen", "--addr": "--listen", "--address": "--listen", "--bind": "--listen", "--host": "--listen",
	"--file": "--config", "--config-file": "--config", "--id": "--node-id", "--peers": "--cluster-peers",
	"--url": "--node", "--token": "--token-file",
}

// flagError adds the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if unknown.GetSpecifiedShortnames() != "" {
		if strings.Contains(cmd.Use, "KEY") {
			return fmt.Errorf(`%w; a key that begins with a dash stands behind "--"`, err)
		}
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
