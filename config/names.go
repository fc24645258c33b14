package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkNames refuses names in settings that are no setting's, and values where
// a section belongs. keys are viper's dotted names, which include those
// without a value; empty are those of sections without settings.
func (f *field) checkNames(settings map[string]any, keys, empty []string) error {
	all := slices.Sorted(slices.Values(slices.Concat(keys, empty)))
	for _, key := range all {
		at, err := root.checkPath(key)
		if err != nil {
			return err
		}
		if at.kind != kindSection && slices.Contains(empty, key) {
			return fmt.Errorf("%s: {} is a section, not a value", key)
		}
	}
	return f.checkSections(settings)
}

// checkPath follows a dotted name down to its setting or section.
func (f *field) checkPath(path string) (*field, error) {
	at := f
	for name := range strings.SplitSeq(path, ".") {
		if at.kind != kindSection {
			return nil, fmt.Errorf("%s: %s has no settings below it", path, at.path)
		}
		below := at.child(name)
		if below == nil {
			return nil, unknown(join(at.path, name), at)
		}
		at = below
	}
	return at, nil
}

func (f *field) checkSections(settings map[string]any) error {
	for _, name := range sortedKeys(settings) {
		below := f.child(name)
		if below == nil || below.kind != kindSection {
			continue
		}
		section, ok := asMap(settings[name])
		if !ok {
			return fmt.Errorf("%s: %s is not a section of settings", below.path, show(settings[name]))
		}
		if err := below.checkSections(section); err != nil {
			return err
		}
	}
	return nil
}

// checkItem is checkNames for one item of a list, and for the sections in it.
func checkItem(f *field, at string, given map[string]any) error {
	for _, name := range sortedKeys(given) {
		below := f.child(name)
		if below == nil {
			return unknown(at+"."+name, f)
		}
		if section, ok := asMap(given[name]); ok && below.kind == kindSection {
			if err := checkItem(below, at+"."+name, section); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknown says that path is no setting, and which one was meant.
func unknown(path string, parent *field) error {
	name := path[strings.LastIndex(path, ".")+1:]
	prefix := strings.TrimSuffix(path, name)
	candidates := make([]string, 0, len(parent.fields))
	for _, f := range parent.fields {
		candidates = append(candidates, f.name)
	}
	if meant := nearest(name, candidates); meant != "" {
		return fmt.Errorf("%s: unknown setting; did you mean %s?", path, prefix+meant)
	}
	// Perhaps the right name in the wrong place.
	for _, f := range root.leaves() {
		if f.path == name || strings.HasSuffix(f.path, "."+name) {
			return fmt.Errorf("%s: unknown setting; did you mean %s?", path, f.path)
		}
	}
	return fmt.Errorf("%s: unknown setting", path)
}

// Suggest names the candidate that is a few typing errors away from name, as
// the end of a message: "; did you mean …?". It is empty if there is none.
func Suggest(name string, candidates []string) string {
	if meant := nearest(name, candidates); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

func nearest(name string, candidates []string) string {
	slices.Sort(candidates)
	best, least := "", 4
	for _, c := range candidates {
		if d := distance(name, c); d < least && 2*d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance is the fewest letters to insert, delete, replace, or swap with their
// neighbour (optimal string alignment).
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
