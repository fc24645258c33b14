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

// maxValue bounds a value that is read from a node, a file or stdin.
const maxValue = 1 << 30

// keyHelp is what the commands that name keys say of them.
const keyHelp = `A key is taken as it is: slashes, spaces, %, ? and dots are part of it, and
nothing is decoded. A key that begins with a dash stands behind "--".`

// withGroup takes a group, and behind it at least as many arguments and at most
// as many. What no node could accept is refused before anything is sent.
func withGroup(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		usage := strings.TrimSuffix(cmd.UseLine(), " [flags]")
		keys := args[min(1, len(args)):]
		if most != anyNumber {
			keys = keys[:min(least, len(keys))] // what follows is a value
		}
		switch {
		case len(args) < 1+least:
			return fmt.Errorf("%s: an argument is missing: %s", cmd.CommandPath(), usage)
		case len(args) > 1+most:
			return fmt.Errorf("%s: %q is an argument too many: %s", cmd.CommandPath(), args[1+most], usage)
		case looksLikeURL(args[0]):
			return fmt.Errorf("%q is not a group; a node is named by --node", args[0])
		case slices.Contains(keys, ""):
			return fmt.Errorf("%s: a key is empty", cmd.CommandPath())
		}
		return nil
	}
}

const anyNumber = 1 << 30

// valueFlags are those of the commands that read and write values. An answer
// may wait for a load, so it is waited for as long as a node's requests may take.
func (r *remote) valueFlags(cmd *cobra.Command) {
	r.timeout = 30 * time.Second
	r.flags(cmd)
	configFlag(cmd, &r.file)
}

// client makes the client of the one node.
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

// outcome makes the command's error of the client's. A group that no node can
// have is a mistake of the user.
func (r *remote) outcome(group string, err error) error {
	answer, _ := errors.AsType[*client.Error](err)
	switch {
	case answer != nil && answer.Code == "":
		return failed(fmt.Errorf("%w; is %s a Kring node?", err, r.node))
	case errors.Is(err, client.ErrBadGroup):
		return fmt.Errorf("GROUP: %q: %w", group, err)
	case errors.Is(err, context.DeadlineExceeded) && r.writes:
		return failed(fmt.Errorf("no answer of %s within %v; it may still be done", r.node, r.timeout))
	case errors.Is(err, context.DeadlineExceeded):
		return failed(fmt.Errorf("no answer of %s within %v", r.node, r.timeout))
	default:
		return failed(err)
	}
}

// eachKey calls do for every key of a group. One key's failure does not hide the
// others; a failure that all would meet ends the command.
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

// ofAllKeys tells failures of the node, the group or the token from a key's own.
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
