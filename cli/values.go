package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kring/client"
)

// maxValue bounds a value from a node, a file or stdin, in bytes.
const maxValue = 1 << 30

// keyHelp is the help text about keys.
const keyHelp = `A key is sent unchanged: slashes, spaces, %, ? and dots are part of it, and
nothing is decoded. Put "--" before a key that begins with a dash.`

// withGroup accepts a group and then least to most arguments. It refuses what
// no node could accept before anything is sent.
func withGroup(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		usage := strings.TrimSuffix(cmd.UseLine(), " [flags]")
		keys := args[min(1, len(args)):]
		if most != anyNumber {
			keys = keys[:min(least, len(keys))] // the rest is a value
		}
		switch {
		case len(args) < 1+least:
			return fmt.Errorf("%s: an argument is missing: %s", cmd.CommandPath(), usage)
		case len(args) > 1+most:
			return fmt.Errorf("%s: %q is an argument too many: %s", cmd.CommandPath(), args[1+most], usage)
		case looksLikeURL(args[0]):
			return fmt.Errorf("%q is not a group; name a node with --node", args[0])
		case slices.Contains(keys, ""):
			return fmt.Errorf("%s: a key is empty", cmd.CommandPath())
		}
		return nil
	}
}

const anyNumber = 1 << 30

// valueFlags are the flags of the commands for values. An answer may wait for a
// load, so the time-out is that of a node's requests.
func (r *remote) valueFlags(cmd *cobra.Command) {
	r.timeout = 30 * time.Second
	r.flags(cmd)
	configFlag(cmd, &r.file)
}

// client makes a client of this one node.
func (r *remote) client() (*client.Client, error) {
	if err := r.resolve(); err != nil {
		return nil, err
	}
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{Nodes: []string{r.node}, Token: token, Timeout: r.timeout, MaxAnswerBytes: maxValue})
	if err != nil {
		return nil, fmt.Errorf("--node: %w", err)
	}
	return c, nil
}

// outcome turns an error of the client into one of the command. An impossible
// group is the user's mistake.
func (r *remote) outcome(group string, err error) error {
	answer, _ := errors.AsType[*client.Error](err)
	switch {
	case answer != nil && answer.Code == "":
		return failed(fmt.Errorf("%w; is %s a Kring node?", err, r.node))
	case errors.Is(err, client.ErrBadGroup):
		return fmt.Errorf("GROUP: %q: %w", group, err)
	case errors.Is(err, context.DeadlineExceeded) && r.writes:
		return failed(fmt.Errorf("no answer from %s within %v; it may still take effect", r.node, r.timeout))
	case errors.Is(err, context.DeadlineExceeded):
		return failed(fmt.Errorf("no answer from %s within %v", r.node, r.timeout))
	default:
		return failed(err)
	}
}

// eachKey calls do for every key of a group. A failed key does not hide the
// others. A failure that all keys would have ends the command.
func (r *remote) eachKey(group string, keys []string, do func(key string) error) error {
	var first error
	bad := 0
	for _, key := range keys {
		err := do(key)
		switch {
		case err == nil:
			continue
		case ofAllKeys(err):
			return r.outcome(group, err)
		}
		if bad++; bad == 1 {
			first = fmt.Errorf("%s: %w", printable(key), r.outcome(group, err))
		}
	}
	if bad > 1 {
		return failed(fmt.Errorf("%d of %d keys failed, the first: %w", bad, len(keys), first))
	}
	return failed(first)
}

// ofAllKeys reports whether an error is about the node, the group or the token,
// not the key.
func ofAllKeys(err error) bool {
	if _, answered := errors.AsType[*client.Error](err); !answered {
		return !errors.Is(err, context.DeadlineExceeded)
	}
	for _, e := range []error{client.ErrBadGroup, client.ErrUnknownGroup, client.ErrUnauthorized, client.ErrForbidden} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
