package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kring/client"
)

type putFlags struct {
	remote
	from    string // name of the file
	options client.PutOptions
}

func newPut() *cobra.Command {
	var f putFlags
	cmd := &cobra.Command{
		Use:   "put GROUP KEY [VALUE]",
		Short: "Set the value of a key",
		Long: `Sets a key's value to the argument VALUE, or else the contents of --file, or else
all of stdin, byte for byte. Prints nothing. After exit code 0 no node answers with
an older value.

` + keyHelp,
		Example: `  kring put kv greeting 'hello, ring'
  kring put kv page --file page.html --content-type 'text/html; charset=utf-8' --ttl 10m
  jq -c . settings.json | kring put kv settings
  kring put kv lock me --if-absent --ttl 30s     # exit code 1 if the lock is taken`,
		Args: withGroup(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.writes = true
	f.valueFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.from, "file", "", "read the value from `FILE`; - is stdin")
	flags.DurationVar(&f.options.TTL, "ttl", 0, "how long the value lives (default: the group's ttl)")
	flags.StringVar(&f.options.ContentType, "content-type", "application/octet-stream", "`TYPE` of the value")
	flags.StringVar(&f.options.IfMatch, "if-match", "", "put only if the current value has this `ETAG`; * is any value")
	flags.BoolVar(&f.options.IfAbsent, "if-absent", false, "put only if the key has no value")
	return cmd
}

func (f *putFlags) run(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	switch {
	case flags.Changed("ttl") && f.options.TTL <= 0:
		return fmt.Errorf("--ttl: %v must be more than 0", f.options.TTL)
	case flags.Changed("if-match") && f.options.IfAbsent:
		return errors.New("--if-match: cannot be combined with --if-absent")
	case flags.Changed("file") && len(args) > 2:
		return fmt.Errorf("--file: cannot be combined with VALUE %q", args[2])
	}
	f.options.IfMatch = quoted(f.options.IfMatch)
	c, err := f.client()
	if err != nil {
		return err
	}
	defer c.Close()
	value, err := f.value(cmd, args[2:])
	if err != nil {
		return err
	}
	return f.eachKey(args[0], args[1:2], func(key string) error {
		_, err := c.Put(cmd.Context(), args[0], key, value, f.options)
		return err
	})
}

// value is the value to put.
func (f *putFlags) value(cmd *cobra.Command, rest []string) ([]byte, error) {
	if len(rest) > 0 {
		return []byte(rest[0]), nil
	}
	name, in := "stdin", cmd.InOrStdin()
	if f.from != "" && f.from != "-" {
		file, err := os.Open(f.from)
		if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		defer file.Close()
		name, in = f.from, file
	} else if file, ok := in.(*os.File); ok && isTerminal(file) {
		fmt.Fprintln(cmd.ErrOrStderr(), "the value is read from the terminal; Ctrl-D ends it")
	}
	value, err := io.ReadAll(io.LimitReader(in, maxValue+1))
	switch {
	case err != nil:
		return nil, failed(fmt.Errorf("read the value: %w", err))
	case len(value) > maxValue:
		return nil, failed(fmt.Errorf("%s: the value is longer than %d bytes", name, maxValue))
	}
	return value, nil
}

// quoted adds the quotes of an ETag, which a shell takes away.
func quoted(etag string) string {
	if etag == "" || etag == "*" || strings.HasSuffix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}
