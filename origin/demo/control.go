package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Control is how a Server behaves.
type Control struct {
	// Latency is the least duration of each answer. Jitter is the most that is
	// added to it, at random.
	Latency Duration `json:"latency"`
	Jitter  Duration `json:"jitter"`
	// ErrorRate is the share of requests that fail with a 500.
	ErrorRate float64 `json:"error_rate"`
	// Version is in each document.
	Version Version `json:"version"`
	// Missing is the set of keys that get a 404.
	Missing Missing `json:"missing"`
	// Size is the length of each document's pad, in bytes.
	Size int `json:"size"`
	// CacheControl is the header of that name in answers that are no errors;
	// empty: no header.
	CacheControl string `json:"cache_control"`
}

// maxSize keeps a mistyped size from eating the machine's memory.
const maxSize = 1 << 30

func (c Control) check() error {
	switch {
	case c.Latency < 0:
		return fmt.Errorf("latency: %s is negative", c.Latency)
	case c.Jitter < 0:
		return fmt.Errorf("jitter: %s is negative", c.Jitter)
	case math.IsNaN(c.ErrorRate) || c.ErrorRate < 0 || c.ErrorRate > 1:
		return fmt.Errorf("error_rate: %v is not between 0 and 1", c.ErrorRate)
	case c.Size < 0 || c.Size > maxSize:
		return fmt.Errorf("size: %d is not between 0 and %d", c.Size, maxSize)
	case !httpguts.ValidHeaderFieldValue(c.CacheControl):
		return fmt.Errorf("cache_control: %q is no header's value", c.CacheControl)
	}
	return nil
}

// wait waits for the latency. It returns false if the client left meanwhile.
func (c Control) wait(ctx context.Context) bool {
	d := time.Duration(c.Latency)
	if c.Jitter > 0 {
		d += rand.N(time.Duration(c.Jitter) + 1)
	}
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c Control) fails() bool { return c.ErrorRate > 0 && rand.Float64() < c.ErrorRate }

// Version is any text. A number in JSON becomes its digits.
type Version string

// UnmarshalJSON reads a text or a number.
func (v *Version) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err == nil {
		*v = Version(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil {
		return fmt.Errorf("version: %s is neither a text nor a number", text)
	}
	*v = Version(n)
	return nil
}

// Duration is a time.Duration that is a text in JSON ("100ms"). A plain number
// in JSON is milliseconds.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads text or milliseconds.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err == nil {
		parsed, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%q is not a duration (try 100ms)", s)
		}
		*d = Duration(parsed)
		return nil
	}
	var ms float64
	if err := json.Unmarshal(text, &ms); err != nil || math.Abs(ms) > 1e12 {
		return fmt.Errorf("%s is not a duration (try \"100ms\")", text)
	}
	*d = Duration(ms * float64(time.Millisecond))
	return nil
}

// Missing is a set of keys: a share of all keys, always the same ones, or the
// keys that match a regular expression. The zero value is the empty set.
type Missing struct {
	share   float64
	pattern *regexp.Regexp
}

// ParseMissing reads a share ("20%", "0.2") or else a regular expression (RE2),
// which may match anywhere in a key.
func ParseMissing(s string) (Missing, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	if share, err := strconv.ParseFloat(number, 64); err == nil {
		if percent {
			share /= 100
		}
		if !(share >= 0 && share <= 1) {
			return Missing{}, fmt.Errorf("missing: %q is not between 0 and 1", s)
		}
		return Missing{share: share}, nil
	}
	if s == "" {
		return Missing{}, nil
	}
	pattern, err := regexp.Compile(s)
	if err != nil {
		return Missing{}, fmt.Errorf("missing: %q is neither a share nor a regular expression: %w", s, err)
	}
	return Missing{pattern: pattern}, nil
}

func (m Missing) has(key string) bool {
	if m.pattern != nil {
		return m.pattern.MatchString(key)
	}
	if m.share == 0 {
		return false
	}
	h := fnv.New64a()
	h.Write([]byte(key)) // a hash.Hash never returns an error
	// The high bits of FNV are poor for short keys: a multiplication spreads
	// them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11)/(1<<53) < m.share
}

// String returns a text that ParseMissing reads.
func (m Missing) String() string {
	if m.pattern != nil {
		return m.pattern.String()
	}
	return strconv.FormatFloat(m.share, 'g', -1, 64)
}

// MarshalJSON writes a share as a number and a pattern as text.
func (m Missing) MarshalJSON() ([]byte, error) {
	if m.pattern != nil {
		return json.Marshal(m.pattern.String())
	}
	return json.Marshal(m.share)
}

// UnmarshalJSON reads a number, or a text as ParseMissing does.
func (m *Missing) UnmarshalJSON(text []byte) error {
	s := string(bytes.TrimSpace(text))
	if strings.HasPrefix(s, `"`) {
		if err := json.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("missing: %w", err)
		}
	} else if _, err := strconv.ParseFloat(s, 64); err != nil {
		return fmt.Errorf("missing: %s is neither a number nor a text", s)
	}
	parsed, err := ParseMissing(s)
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}
