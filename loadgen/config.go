package loadgen

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"kring/client"
)

// Config is the settings of a run.
type Config struct {
	// Nodes are the URLs of the entry nodes; at least one must be given. Policy
	// chooses among them. Default: smooth_weighted.
	Nodes  []string
	Policy string
	Token  string
	Group  string
	// Keys is uniform:N, zipf:S:N, or the name of a file of keys, one a line,
	// optionally with a tab and a size in bytes. A .gz file is unpacked.
	// Default: uniform:10000.
	Keys string
	// Concurrency is how many requests are in flight at most, 1 to 65536.
	// Default: 32.
	Concurrency int
	// Rate is the requests per second of an open loop. Default: 0, a closed
	// loop.
	Rate float64
	// Duration and Count end the run, whichever comes first. Default: 0, no
	// end. With neither, a file of keys is read once, and anything else runs
	// for ten seconds.
	Duration time.Duration
	Count    int64
	// Write and Delete are shares of the requests, 0 to 1. Default: 0.
	Write, Delete float64
	// ValueSize is the length in bytes of the pad in put values. A file of keys
	// may give other sizes. Default: 100. Zero: no pad.
	ValueSize int
	// Timeout bounds each request with its retries. Default: 30s. Zero is refused.
	Timeout time.Duration
	// Origin is the URL of the demo origin. Its loads are counted before and
	// after, so only this cluster may use it meanwhile. Default: empty, not
	// counted.
	Origin string
	// Verify checks every body. The group's origin must be the demo origin.
	// Default: false.
	Verify bool
	// pick replaces Keys in a scenario.
	pick func(r *rand.Rand) picker
	// Seed makes the choice of keys repeatable. Default: 0, a random seed.
	Seed uint64
	// Command and Version go into the report. Default: empty.
	Command, Version string
	// Progress receives lines, or with Terminal a bar, during the run. Default:
	// nil, no progress.
	Progress io.Writer
	Terminal bool
}

// DefaultConfig holds the defaults of `kring load`.
func DefaultConfig() Config {
	return Config{
		Policy: "smooth_weighted", Keys: "uniform:10000", Concurrency: 32,
		ValueSize: 100, Timeout: 30 * time.Second,
	}
}

const defaultDuration = 10 * time.Second

// Validate says what is wrong with the configuration. The message names the
// flag and the value.
func (c *Config) Validate() error {
	bad := func(flag string, value any, why string) error { return fmt.Errorf("--%s: %v: %s", flag, value, why) }
	switch {
	case len(c.Nodes) == 0:
		return bad("nodes", `""`, "at least one URL is needed")
	case c.Group == "":
		return bad("group", `""`, "the name of a group is needed")
	case c.Concurrency < 1 || c.Concurrency > 1<<16:
		return bad("concurrency", c.Concurrency, "must be from 1 to 65536")
	case !(c.Rate >= 0 && c.Rate <= 1e7):
		return bad("rate", c.Rate, "must be requests per second, at most 10000000")
	case c.Duration < 0:
		return bad("duration", c.Duration, "must not be negative")
	case c.Count < 0:
		return bad("count", c.Count, "must not be negative")
	case !(c.Write >= 0 && c.Delete >= 0 && c.Write+c.Delete <= 1):
		return bad("write", fmt.Sprintf("%v and --delete: %v", c.Write, c.Delete), "must be shares that make at most 100%")
	case c.ValueSize < 0 || c.ValueSize > 1<<30:
		return bad("value-size", c.ValueSize, "must be from 0 to 1073741824 bytes")
	case c.Timeout <= 0:
		return bad("timeout", c.Timeout, "must be positive")
	}
	spec, err := parseKeys(c.Keys)
	if err != nil {
		return err
	}
	if spec.file != "" {
		if _, err := os.Stat(spec.file); err != nil {
			return fmt.Errorf("--keys: %w", err)
		}
	}
	if c.Origin != "" {
		if u, err := url.Parse(c.Origin); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return bad("origin", strconv.Quote(c.Origin), "is not a URL (try http://127.0.0.1:8100)")
		}
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	cl.Close()
	return nil
}

// client makes the client of this configuration.
func (c *Config) client() (*client.Client, error) {
	cl, err := client.New(client.Config{
		Nodes: c.Nodes, Policy: c.Policy, Token: c.Token, Timeout: c.Timeout,
		MaxIdleConns: c.Concurrency, MaxAnswerBytes: 1 << 30,
	})
	if err != nil {
		return nil, fmt.Errorf("--nodes, --policy: %w", err)
	}
	return cl, nil
}

// ParseShare reads a share of requests: "5%" or "0.05".
func ParseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
		return 0, fmt.Errorf("%q is not a share (try 5%% or 0.05)", s)
	}
	return f, nil
}
