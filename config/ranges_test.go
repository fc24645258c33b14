package config_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"kring/config"
)

// durations are all settings that are durations. Each has a file in which it
// can be set, the least and greatest value, and whether it may be 0.
var durations = []struct {
	setting, file string
	least, most   time.Duration
	orZero        bool
}{
	{"limits.request_timeout", "limits: {request_timeout: %s}", 10 * time.Millisecond, 24 * time.Hour, false},
	{"handoff.drain_timeout", "handoff: {drain_timeout: %s}", 100 * time.Millisecond, 24 * time.Hour, false},
	{"cluster.lease", "cluster: {lease: %s}", time.Second, time.Second, false},
	{"redis.timeout", "redis: {timeout: %s}", 5 * time.Millisecond, 10 * time.Second, false},
	{"groups[g].ttl", "groups: [{name: g, ttl: %s}]", time.Millisecond, 87600 * time.Hour, true},
	{"groups[g].stale_while_revalidate", "groups: [{name: g, stale_while_revalidate: %s}]", 0, 87600 * time.Hour, true},
	{"groups[g].stale_if_error", "groups: [{name: g, stale_if_error: %s}]", 0, 87600 * time.Hour, true},
	{"groups[g].negative_ttl", "groups: [{name: g, negative_ttl: %s}]", 0, 87600 * time.Hour, true},
	{"groups[g].load_timeout", "groups: [{name: g, load_timeout: %s}]", 10 * time.Millisecond, 24 * time.Hour, false},
	{"pools[p].lease", "pools: [{name: p, lease: %s}]", 500 * time.Millisecond, 720 * time.Hour, false},
	{"pools[p].slow_start", "pools: [{name: p, slow_start: %s}]", 0, 24 * time.Hour, true},
	{"pools[p].keep_count", "pools: [{name: p, keep_count: %s}]", 0, 8760 * time.Hour, true},
	{"pools[p].max_connection_age", "pools: [{name: p, max_connection_age: %s}]", 100 * time.Millisecond, 8760 * time.Hour, true},
	{"pools[p].health.fail_timeout", "pools: [{name: p, health: {fail_timeout: %s}}]", 100 * time.Millisecond, 24 * time.Hour, false},
	{"pools[p].health.probe_interval", "pools: [{name: p, health: {probe: /up, probe_interval: %s}}]", 100 * time.Millisecond, 24 * time.Hour, false},
}

// No duration makes a loop that never rests, a deadline that always fails, or a
// number that overflows: each has a least and a greatest value.
func TestDurationsHaveRanges(t *testing.T) {
	for _, row := range durations {
		t.Run(row.setting, func(t *testing.T) {
			for _, d := range []time.Duration{row.least, row.most} {
				if _, err := config.Load(write(t, fmt.Sprintf(row.file, d)), nil); err != nil {
					t.Errorf("%v is refused: %v", d, err)
				}
			}
			bad := []time.Duration{-1, -time.Hour, row.most + 1, 1<<63 - 1}
			if row.least > 0 {
				bad = append(bad, 1, row.least-1)
			}
			if _, err := config.Load(write(t, fmt.Sprintf(row.file, "0s")), nil); row.orZero != (err == nil) {
				t.Errorf("0s: %v", err)
			}
			for _, d := range bad {
				_, err := config.Load(write(t, fmt.Sprintf(row.file, d)), nil)
				if err == nil || !strings.Contains(err.Error(), row.setting+": "+d.String()) || strings.Contains(err.Error(), "; ") {
					t.Errorf("%v: %v", d, err)
				}
			}
		})
	}
}

// The table above has every setting that is a duration.
func TestAllDurationsHaveRanges(t *testing.T) {
	l := load(t, write(t, "groups: [{name: g}]\npools: [{name: p}]"))
	known := map[string]bool{}
	for _, row := range durations {
		known[row.setting] = true
	}
	duration := regexp.MustCompile(`^[0-9].*(ms|s|m|h)$`)
	for _, s := range l.Settings() {
		if duration.MatchString(s.Value) && !known[s.Path] {
			t.Errorf("%s has no range in the table", s.Path)
		}
	}
}

func TestSizesHaveRanges(t *testing.T) {
	for _, row := range []struct{ setting, file, least, most, less, more string }{
		{"cache.max_bytes", "cache: {max_bytes: %s}", "64KiB", "1024TiB", "65535", "1025TiB"},
		{"cache.max_value_bytes", "cache: {max_bytes: 10GiB, max_value_bytes: %s}", "1", "1GiB", "0", "1025MiB"},
		{"cache.max_key_bytes", "cache: {max_key_bytes: %s}", "1", "65536", "0", "65537"},
		{"pools[p].max_header_bytes", "pools: [{name: p, max_header_bytes: %s}]", "1KiB", "16MiB", "1023", "17MiB"},
		{"pools[p].max_body_bytes", "pools: [{name: p, max_body_bytes: %s}]", "1", "1GiB", "0", "1025MiB"},
	} {
		t.Run(row.setting, func(t *testing.T) {
			for _, size := range []string{row.least, row.most} {
				if _, err := config.Load(write(t, fmt.Sprintf(row.file, size)), nil); err != nil {
					t.Errorf("%s is refused: %v", size, err)
				}
			}
			for _, size := range []string{row.less, row.more, "-1"} {
				_, err := config.Load(write(t, fmt.Sprintf(row.file, size)), nil)
				if err == nil || !strings.Contains(err.Error(), row.setting+": ") || strings.Contains(err.Error(), "; ") {
					t.Errorf("%s: %v", size, err)
				}
			}
		})
	}
}
