package cache_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"kring/cache"
)

func TestImpossibleSettingsAreNamed(t *testing.T) {
	docs := func(change func(g *cache.GroupConfig)) func(*cache.Options) {
		return group(change)
	}
	config := func(change func(c *cache.Config)) func(*cache.Options) {
		return func(o *cache.Options) { change(&o.Config) }
	}
	rows := []struct {
		want   string // field and value
		change func(o *cache.Options)
	}{
		{"cache.max_bytes: 0:", config(func(c *cache.Config) { c.MaxBytes = 0 })},
		{"cache.max_value_bytes: -1:", config(func(c *cache.Config) { c.MaxValueBytes = -1 })},
		{"cache.max_key_bytes: 100000:", config(func(c *cache.Config) { c.MaxKeyBytes = 100000 })},
		{"cache.hot_share: 1:", config(func(c *cache.Config) { c.HotShare = 1 })},
		{"cache.negative_share: NaN:", config(func(c *cache.Config) { c.NegativeShare = math.NaN() })},
		{"cache.hot_share: 0.6:", config(func(c *cache.Config) { c.HotShare, c.NegativeShare = 0.6, 0.5 })},
		{`groups: name "Docs":`, docs(func(g *cache.GroupConfig) { g.Name = "Docs" })},
		{`groups: name "kv":`, docs(func(g *cache.GroupConfig) { g.Name = "kv" })},
		{"groups[docs].origin: ", docs(func(g *cache.GroupConfig) { g.Origin.Path = "" })},
		{"groups[docs].origin.pool: \"docs\":", func(o *cache.Options) { o.Loader = nil }},
		{"groups[docs].ttl: -1ns:", docs(func(g *cache.GroupConfig) { g.TTL = -1 })},
		{"groups[docs].stale_if_error: -1s:", docs(func(g *cache.GroupConfig) { g.StaleIfError = -second })},
		{"groups[docs].jitter: 1:", docs(func(g *cache.GroupConfig) { g.Jitter = 1 })},
		{"groups[docs].refresh_ahead: 2:", docs(func(g *cache.GroupConfig) { g.RefreshAhead = 2 })},
		{"groups[docs].new_key_rate: -1:", docs(func(g *cache.GroupConfig) { g.NewKeyRate = -1 })},
		{"groups[docs].hot_rate: NaN:", docs(func(g *cache.GroupConfig) { g.HotRate = math.NaN() })},
		{"groups[docs].partition: maybe:", docs(func(g *cache.GroupConfig) { g.Partition = "maybe" })},
		{"groups[docs].key_pattern: a)(b:", docs(func(g *cache.GroupConfig) { g.KeyPattern = "a)(b" })},
	}
	for _, row := range rows {
		t.Run(row.want, func(t *testing.T) {
			g := cache.DefaultGroupConfig("docs")
			g.Origin = cache.OriginConfig{Pool: "docs", Path: "/{key}"}
			o := cache.Options{
				Config: cache.DefaultConfig(),
				Groups: []cache.GroupConfig{g, {Name: "kv"}},
				Loader: cache.LoaderFunc(func(context.Context, *cache.Load) (cache.Loaded, error) { return value("v"), nil }),
			}
			row.change(&o)
			c, err := cache.New(o)
			if err == nil {
				c.Close()
				t.Fatal("accepted")
			}
			if !strings.HasPrefix(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestErrorsShowCodeDetailAndCause(t *testing.T) {
	e := cache.ErrOriginFailed.With("status 503").Because(context.DeadlineExceeded)
	if s := e.Error(); s != "origin-failed: status 503: context deadline exceeded" {
		t.Error(s)
	}
	if v := (cache.Version{View: 1, ViewID: 255, Counter: 3}).String(); v != "1.ff.3" {
		t.Error(v)
	}
}
