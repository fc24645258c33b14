package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"kring/config"
	"kring/membership"
)

// placement is the owner of a key and the next owners.
type placement struct {
	Key    string   `json:"key"`
	Hash   uint32   `json:"hash"`
	Owner  string   `json:"owner"`
	Owners []string `json:"owners"` // all members, in the order of the ring
	// Error says why the node has no answer for the key.
	Error string `json:"error,omitempty"`
}

func newRing() *cobra.Command {
	var r remote
	var group string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ring [KEY…]",
		Short: "Show the owners of keys",
		Long: `Shows each key's owner and the next owners, should that node leave. Without --node
it computes them from the configuration and calls no node. With --node it asks that
node. Without keys it shows each node's share of the ring.

Keys are not percent-decoded.`,
		Example: `  kring ring --config config.yaml user:42 "a key"
  kring ring --node http://127.0.0.1:8001 user:42
  kring ring`,
		RunE: func(cmd *cobra.Command, keys []string) error {
			out := cmd.OutOrStdout()
			if r.node != "" {
				return askRing(cmd.Context(), &r, out, group, keys, asJSON)
			}
			if len(keys) > 0 && isOrigin(keys[0]) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%q is used as a key; name a node with --node\n", keys[0])
			}
			l, err := config.Look(r.file, nil)
			if err != nil {
				return err
			}
			view, err := l.Config.Ring()
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				err = printShares(out, sharesOf(view), asJSON)
			} else {
				err = printPlacements(out, place(view, keys), asJSON)
			}
			if err == nil && !asJSON {
				// This may not be the cluster that the user means: it may run
				// with another file.
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "computed from %s (%s); to ask a running node: --node URL\n",
					cmp.Or(l.File, builtIn), nodes(len(view.Members)))
			}
			return failed(err)
		},
	}
	r.flags(cmd)
	configFlag(cmd, &r.file)
	cmd.Flags().StringVar(&group, "group", "", "with --node: a group that accepts the keys (default: the first one)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// isOrigin reports whether a key is a URL without a path, which is probably a
// node.
func isOrigin(key string) bool {
	u, err := url.Parse(key)
	return err == nil && u.Host != "" && (u.Path == "" || u.Path == "/")
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func place(view *membership.View, keys []string) []placement {
	placements := make([]placement, len(keys))
	for i, key := range keys {
		owners := view.Ring.Owners(key, len(view.Members))
		placements[i] = placement{Key: key, Hash: view.Ring.Hash(key), Owner: owners[0], Owners: owners}
	}
	return placements
}

// askRing asks a node. It places a key alike in all groups, so any group that
// accepts the key is good enough.
func askRing(ctx context.Context, r *remote, out io.Writer, group string, keys []string, asJSON bool) error {
	if len(keys) == 0 {
		var c clusterJSON
		if err := r.getJSON(ctx, "/v1/cluster", &c); err != nil {
			return err
		}
		shares := make([]share, len(c.Members))
		for i, m := range c.Members {
			shares[i] = share{m.ID, m.URL, m.Weight, m.Share}
		}
		return failed(printShares(out, shares, asJSON))
	}
	if group == "" {
		var s statsJSON
		if err := r.getJSON(ctx, "/v1/stats", &s); err != nil {
			return err
		}
		if len(s.Groups) == 0 {
			return failed(errors.New("the node has no group to ask about"))
		}
		group = s.Groups[0].Name
	}
	placements := make([]placement, len(keys))
	var bad []error // one bad key must not hide the others
	for i, key := range keys {
		path := "/v1/explain/" + url.PathEscape(group) + "/" + url.PathEscape(key)
		err := r.getJSON(ctx, path, &placements[i])
		if refused, ok := errors.AsType[*refusedError](err); ok {
			placements[i] = placement{Key: key, Owners: []string{}, Error: refused.reason}
			bad = append(bad, err)
			continue
		}
		if err != nil {
			return err
		}
	}
	if err := printPlacements(out, placements, asJSON); err != nil {
		return failed(err)
	}
	switch len(bad) {
	case 0:
		return nil
	case 1:
		return bad[0]
	}
	return failed(fmt.Errorf("%d of %d keys are refused, the first by %w", len(bad), len(keys), bad[0]))
}

func printPlacements(w io.Writer, placements []placement, asJSON bool) error {
	if asJSON {
		return printJSON(w, map[string]any{"keys": placements})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tHASH\tOWNER\tNEXT")
	for _, p := range placements {
		if p.Error != "" {
			fmt.Fprintf(t, "%s\t-\t-\t%s\n", printable(p.Key), p.Error)
			continue
		}
		next := "-"
		if len(p.Owners) > 1 {
			next = strings.Join(p.Owners[1:], ", ")
		}
		fmt.Fprintf(t, "%s\t%08x\t%s\t%s\n", printable(p.Key), p.Hash, p.Owner, next)
	}
	return t.Flush()
}

// share is a member's part of the ring.
type share struct {
	ID     string  `json:"id"`
	URL    string  `json:"url"`
	Weight int     `json:"weight"`
	Share  float64 `json:"share"`
}

func sharesOf(view *membership.View) []share {
	shares := make([]share, len(view.Members))
	for i, m := range view.Members {
		shares[i] = share{m.ID, m.URL, m.Weight, view.Share(m.ID)}
	}
	return shares
}

func printShares(w io.Writer, shares []share, asJSON bool) error {
	if asJSON {
		return printJSON(w, map[string]any{"members": shares})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tWEIGHT\tSHARE\tURL")
	for _, s := range shares {
		fmt.Fprintf(t, "%s\t%d\t%.2f%%\t%s\n", s.ID, s.Weight, 100*s.Share, s.URL)
	}
	return t.Flush()
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printable quotes a key that would break a table.
func printable(key string) string {
	if q := strconv.Quote(key); q != `"`+key+`"` || strings.Contains(key, " ") || key == "" {
		return q
	}
	return key
}
