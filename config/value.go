package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kring/httpapi"
)

// parse turns a value of a file, variable or flag into the setting's type. Text
// from a variable or flag and a value from a YAML file are treated alike: "12"
// and 12 are one number. A number that only YAML knows (0x10, 1_000, 010) is
// refused.
func (k kind) parse(raw any) (any, error) {
	switch k {
	case kindText:
		return parseText(raw)
	case kindBool:
		return parseBool(raw)
	case kindInt:
		return parseInt(raw)
	case kindRate:
		return parseRate(raw)
	case kindSize:
		return parseSize(raw)
	case kindShare:
		return parseShare(raw)
	case kindSizeOrShare:
		return parseSizeOrShare(raw)
	case kindDuration:
		return parseDuration(raw)
	case kindTexts:
		return parseTexts(raw)
	case kindInts:
		return parseInts(raw)
	}
	return nil, fmt.Errorf("%s is not a single value", show(raw))
}

func parseText(raw any) (string, error) {
	if s, ok := raw.(string); ok {
		return s, nil
	}
	return "", fmt.Errorf("%s is not a text (put it in quotes)", show(raw))
}

func parseBool(raw any) (bool, error) {
	if text, ok := written(raw); ok {
		if b, err := strconv.ParseBool(text); err == nil {
			return b, nil
		}
	}
	return false, fmt.Errorf("%s is neither true nor false", show(raw))
}

func parseInt(raw any) (int, error) {
	n, err := whole(raw)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is not a whole number", show(raw))
	case n > math.MaxInt32 || n < math.MinInt32:
		return 0, fmt.Errorf("%s is beyond %d", show(raw), math.MaxInt32)
	}
	return int(n), nil
}

func parseRate(raw any) (float64, error) {
	n, err := number(raw)
	if err != nil {
		return 0, fmt.Errorf("%s is not a number", show(raw))
	}
	return n, nil
}

// units are the units of a size. Ambiguous ones are missing: K and M mean
// different things to different people.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

func parseSize(raw any) (int64, error) {
	bad := fmt.Errorf("%s is not a size (try 256MiB, 64KiB or a number of bytes)", show(raw))
	digits, ok := written(raw)
	if !ok {
		return 0, bad
	}
	factor := 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(digits, u.name); ok {
			digits, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	if n, err := whole(digits); err == nil && factor == 1 {
		return n, nil
	}
	n, err := number(digits)
	if n *= factor; err != nil || math.Abs(n) >= 1<<62 || factor == 1 && n != math.Trunc(n) {
		return 0, bad
	}
	return int64(n), nil
}

func parseShare(raw any) (float64, error) {
	text, ok := written(raw)
	text, percent := strings.CutSuffix(text, "%")
	n, err := number(text)
	if !ok || err != nil {
		return 0, fmt.Errorf("%s is not a share (try 10%% or 0.1)", show(raw))
	}
	if percent {
		n /= 100
	}
	return n, nil
}

// parseSizeOrShare reads a percentage or a number below 1 as a share, and
// everything else as a size.
func parseSizeOrShare(raw any) (httpapi.SizeOrShare, error) {
	text, _ := raw.(string)
	percent := strings.HasSuffix(strings.TrimSpace(text), "%")
	if share, err := parseShare(raw); err == nil && (percent || share > 0 && share < 1) {
		if share > 1 {
			return 0, fmt.Errorf("%s is more than 100%%", show(raw))
		}
		return httpapi.SizeOrShare(share), nil
	}
	size, err := parseSize(raw)
	if err != nil || size == 1 { // 1 could be read as 100 %
		return 0, fmt.Errorf("%s is neither a size nor a share (try 64MiB or 25%%)", show(raw))
	}
	return httpapi.SizeOrShare(size), nil
}

func parseDuration(raw any) (time.Duration, error) {
	if text, ok := written(raw); ok {
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%s is not a duration (try 250ms, 30s or 10m)", show(raw))
}

// parseTexts accepts a YAML list, or a text with commas between the items.
func parseTexts(raw any) ([]string, error) {
	texts := []string{}
	switch v := raw.(type) {
	case string:
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				texts = append(texts, item)
			}
		}
		return texts, nil
	case []any:
		for _, item := range v {
			s, err := parseText(item)
			if err != nil {
				return nil, err
			}
			texts = append(texts, s)
		}
		return texts, nil
	}
	return nil, fmt.Errorf("%s is not a list", show(raw))
}

// parseInts is parseTexts for numbers.
func parseInts(raw any) ([]int, error) {
	list, ok := raw.([]any)
	if !ok {
		texts, err := parseTexts(raw)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			list = append(list, text)
		}
	}
	numbers := []int{}
	for _, item := range list {
		n, err := parseInt(item)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

var errNumber = errors.New("not a number")

// written is a single value as text, without spaces around it.
func written(raw any) (string, bool) {
	switch v := raw.(type) {
	case string:
		return strings.TrimSpace(v), true
	case scalar:
		return string(v), true
	}
	return "", false
}

// decimal matches the numbers that all readers read alike: no leading zeros, no
// other bases, no separators between the digits.
var decimal = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*)?(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func whole(raw any) (int64, error) {
	text, ok := written(raw)
	if !ok || !decimal.MatchString(text) {
		return 0, errNumber
	}
	return strconv.ParseInt(text, 10, 64)
}

func number(raw any) (float64, error) {
	text, ok := written(raw)
	if !ok || !decimal.MatchString(text) {
		return 0, errNumber
	}
	return strconv.ParseFloat(text, 64)
}

// show quotes a value for an error message, on one line and not too long.
func show(raw any) string {
	const most = 80
	s := fmt.Sprint(raw)
	if text, ok := raw.(string); ok {
		s = strconv.Quote(text)
	}
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
