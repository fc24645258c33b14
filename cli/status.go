package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// clusterJSON is the shown part of GET /v1/cluster.
type clusterJSON struct {
	Node    string `json:"node"`
	Cluster string `json:"cluster"`
	Epoch   uint64 `json:"epoch"`
	ViewID  string `json:"view_id"`
	CutOff  bool   `json:"cut_off"`
	Members []struct {
		ID     string    `json:"id"`
		URL    string    `json:"url"`
		State  string    `json:"state"`
		Since  time.Time `json:"since"`
		Weight int       `json:"weight"`
		Share  float64   `json:"share"`
		Reason string    `json:"reason"`
	} `json:"members"`
}

// statsJSON is the shown part of GET /v1/stats.
type statsJSON struct {
	Gets, Hits, Stale, Joined, Peer, Loads, Refused int64
	HotHits                                         int64 `json:"hot_hits"`
	Bytes, Entries, Evictions                       int64
	MaxBytes                                        int64 `json:"max_bytes"`
	Groups                                          []struct{ Name string }
}

func newStatus() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the cluster as one node sees it, and that node's books",
		Long: `Asks one node for its view of the members, with the reason why a member is down,
and for its counters. Exit code 1 if the node does not answer or a member is down.`,
		Example: "  kring status --node http://127.0.0.1:8002",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var cluster clusterJSON
			if err := r.getJSON(cmd.Context(), "/v1/cluster", &cluster); err != nil {
				return err
			}
			var stats statsJSON
			if err := r.getJSON(cmd.Context(), "/v1/stats", &stats); err != nil {
				return err
			}
			if err := printStatus(cmd.OutOrStdout(), cluster, stats); err != nil {
				return failed(err)
			}
			return cluster.fault()
		},
	}
	r.flags(cmd)
	configFlag(cmd, &r.file)
	return cmd
}

func (c clusterJSON) fault() error {
	var down []string
	for _, m := range c.Members {
		if m.State == "down" {
			down = append(down, m.ID+because(m.Reason))
		}
	}
	if len(down) > 0 {
		return failed(fmt.Errorf("down, as %s sees it: %s", c.Node, strings.Join(down, ", ")))
	}
	return nil
}

// because is a member's reason in parentheses, or "".
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func printStatus(w io.Writer, c clusterJSON, s statsJSON) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "cluster %s, epoch %d, as %s sees it\n\n", c.Cluster, c.Epoch, c.Node)
	fmt.Fprintln(t, "NODE\tSTATE\tSINCE\tWEIGHT\tSHARE\tURL\tREASON")
	for _, m := range c.Members {
		since := "-"
		if !m.Since.IsZero() {
			since = m.Since.Local().Format(time.DateTime)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.1f%%\t%s\t%s\n", m.ID, m.State, since, m.Weight, 100*m.Share, m.URL, cmp.Or(m.Reason, "-"))
	}
	fmt.Fprintf(t, "\n%d gets: %d hits, %d hot, %d stale, %d joined, %d by peers, %d loads, %d refused\n",
		s.Gets, s.Hits, s.HotHits, s.Stale, s.Joined, s.Peer, s.Loads, s.Refused)
	fmt.Fprintf(t, "%d entries, %.1f of %.1f MiB, %d evictions\n",
		s.Entries, float64(s.Bytes)/(1<<20), float64(s.MaxBytes)/(1<<20), s.Evictions)
	return t.Flush()
}
