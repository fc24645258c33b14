package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"kring/node"
)

// render writes a value as YAML that Load reads as the same value.
func (f *field) render(v reflect.Value) string {
	switch f.kind {
	case kindText:
		return quote(v.String())
	case kindBool:
		return strconv.FormatBool(v.Bool())
	case kindInt:
		return strconv.FormatInt(v.Int(), 10)
	case kindRate:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case kindSize:
		return renderSize(v.Int())
	case kindShare:
		return renderShare(v.Float())
	case kindSizeOrShare:
		if v.Float() > 1 {
			return renderSize(int64(v.Float()))
		}
		return renderShare(v.Float())
	case kindDuration:
		return node.ShortDuration(time.Duration(v.Int()))
	case kindTexts, kindInts:
		items := make([]string, v.Len())
		for i := range items {
			if f.kind == kindInts {
				items[i] = strconv.FormatInt(v.Index(i).Int(), 10)
			} else {
				items[i] = quote(v.Index(i).String())
			}
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}

func renderSize(n int64) string {
	unit := ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}

// renderShare writes a percentage where that is exact.
func renderShare(share float64) string {
	percent := strconv.FormatFloat(share*100, 'g', 6, 64)
	if n, err := strconv.ParseFloat(percent, 64); err == nil && n/100 == share {
		return percent + "%"
	}
	return strconv.FormatFloat(share, 'g', -1, 64)
}

// quote writes text as YAML, without quotes if it cannot be misread.
func quote(s string) string {
	bare := s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z') && !slices.Contains([]string{
		"true", "false", "null", "yes", "no", "on", "off", "y", "n",
	}, strings.ToLower(s))
	for _, c := range s {
		bare = bare && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./", c))
	}
	if bare {
		return s
	}
	// JSON's quoting is valid YAML, and for printable text strconv's is JSON's.
	return strconv.Quote(s)
}
