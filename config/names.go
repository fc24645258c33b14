package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkSection records unknown names in a section of a file, in their original
// spelling, and values in place of sections. It returns the rest, without
// entries that have no value.
func (l *loader) checkSection(f *field, given map[string]any, source string) map[string]any {
	rest := map[string]any{}
	for _, name := range sortedKeys(given) {
		value, below, path := given[name], f.child(name), join(f.path, name)
		section, isMap := value.(map[string]any)
		items, isList := value.([]any)
		switch {
		case below == nil:
			l.unknown(source, f, f.path, name)
		case value == nil:
		case below.kind == kindSection && isMap:
			rest[name] = l.checkSection(below, section, source)
		case below.kind == kindSection:
			l.add(source, path, fmt.Errorf("%s: %s is not a section of settings", path, show(value)))
		case isMap && len(section) == 0:
			l.add(source, path, fmt.Errorf("%s: {} is a section, not a value", path))
		case isMap:
			l.add(source, path, fmt.Errorf("%s: %s has no settings below it", shownName(join(path, sortedKeys(section)[0])), path))
		case below.kind == kindItems && isList:
			rest[name] = list(items)
		default:
			rest[name] = value
		}
	}
	return rest
}

// checkItem is checkSection for one item of a list.
func (l *loader) checkItem(f *field, at string, given map[string]any, source string) {
	for _, name := range sortedKeys(given) {
		below := f.child(name)
		if below == nil {
			l.unknown(source, f, at, name)
		} else if section, ok := given[name].(map[string]any); ok && below.kind == kindSection {
			l.checkItem(below, join(at, name), section, source)
		}
	}
}

// meantSetting is the setting that an unknown name below at was probably meant
// to be, or "".
func meantSetting(parent *field, at, name string) string {
	candidates := make([]string, 0, len(parent.fields))
	for _, f := range parent.fields {
		candidates = append(candidates, f.name)
	}
	if meant := nearest(name, candidates); meant != "" {
		return join(at, meant)
	}
	// It may be the right name in the wrong place, or the whole path.
	name = strings.ToLower(name)
	for _, f := range root.leaves() {
		if f.path == name || strings.HasSuffix(f.path, "."+name) {
			return f.path
		}
	}
	return ""
}

// Suggest returns the candidate that is a few typing errors away from name, as
// the end of a message: "; did you mean …?". It is empty if there is none.
func Suggest(name string, candidates []string) string {
	if meant := nearest(name, candidates); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

func nearest(name string, candidates []string) string {
	slices.Sort(candidates)
	if i := slices.IndexFunc(candidates, func(c string) bool { return strings.EqualFold(c, name) }); i >= 0 {
		return candidates[i]
	}
	best, least := "", 4
	for _, c := range candidates {
		if d := distance(name, c); d < least && 2*d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance is the least number of letters to insert, delete, replace or swap
// with a neighbour (optimal string alignment).
func distance(a, b string) int {
	var before []int // the row before last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
