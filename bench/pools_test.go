//go:build linux

package main

import (
	"testing"
	"time"
)

// Every policy is measured. Shared policies are compared with the bare call.
func TestPools(t *testing.T) {
	b := &bench{dir: t.TempDir(), rounds: 1, duration: 50 * time.Millisecond, quiet: true}
	if err := b.pools(t.Context()); err != nil {
		t.Fatal(err)
	}
	judged := map[string]int{}
	for _, g := range b.report.Goals {
		judged[g.Work]++
		if g.Ratio < 0 || g.Metric == "p50_us" && g.Ratio == 0 {
			t.Errorf("%+v", g)
		}
	}
	for work, peer := range map[string]string{
		"local pick, round_robin": "", "local pick, weighted": "", "local pick, smooth_weighted": "",
		"local pick, least_assigned": "", "local pick, least_in_flight": "",
		"shared pick, least_assigned": evalsha, "shared pick, least_in_flight": evalsha,
		"shared pick and its end, least_in_flight": evalsha,
	} {
		for _, contestant := range []string{kring, peer} {
			row := b.report.row(work, contestant)
			if contestant != "" && (row == nil || row.RPS <= 0 || row.P50 <= 0 || row.P99 < row.P50 || row.Rounds != 1) {
				t.Errorf("%s, %s: %+v", work, contestant, row)
			}
		}
	}
	if len(b.report.Results) != 5+2*3 || len(judged) != 5+2 {
		t.Errorf("%d rows, goals of %v", len(b.report.Results), judged)
	}
}
