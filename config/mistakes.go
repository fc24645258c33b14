package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"kring/node"
)

// Mistakes are several mistakes in one configuration.
type Mistakes []error

// Error is all mistakes on one line.
func (m Mistakes) Error() string {
	texts := make([]string, len(m))
	for i, err := range m {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (m Mistakes) Unwrap() []error { return m }

// mistake is one mistake, and the setting that it is about; for an unknown
// name, the setting that was probably meant, or "".
type mistake struct {
	about string
	err   error
}

// add records a mistake.
func (l *loader) add(source, about string, err error) {
	l.mistakes = append(l.mistakes, mistake{about, located(source, err)})
}

// err is all mistakes. A single one is returned itself.
func (l *loader) err() error {
	switch len(l.mistakes) {
	case 0:
		return nil
	case 1:
		return l.mistakes[0].err
	}
	var all Mistakes
	for _, m := range l.mistakes {
		all = append(all, m.err)
	}
	return all
}

// validate finds all faults of a configuration. A check stops at its first
// fault. So the setting at fault then gets its default, and the check runs
// again. If the default is at fault, too, the list item with the setting is
// left out. Faults that follow from another mistake are not reported.
func (l *loader) validate(loaded *Loaded, faults func(node.Config) []error) {
	cfg, seen := loaded.Config, map[string]int{}
	for again := true; again; {
		again = false
		for _, err := range faults(cfg) {
			fault, ok := errors.AsType[*node.FieldError](err)
			if !ok {
				fault = &node.FieldError{Problem: err.Error()}
			}
			if !l.explained(fault) && !around(fault.Field, seen) {
				l.mistakes = append(l.mistakes, mistake{fault.Field, loaded.Locate(err)})
			}
			switch seen[fault.Field]++; seen[fault.Field] {
			case 1:
				reset(&cfg, fault.Field)
			case 2:
				leaveOut(&cfg, fault.Field)
			default:
				continue
			}
			again = true
		}
	}
}

// explained reports whether a fault may follow from a known mistake: it is
// about the same setting, about a section around it, or about one that follows
// it, or it names the setting.
func (l *loader) explained(fault *node.FieldError) bool {
	for _, m := range l.mistakes {
		switch {
		case m.about == "" && m.err.Error() == fault.Problem:
			return true
		case m.about == "":
		case inside(fault.Field, m.about), strings.Contains(fault.Problem, m.about):
			return true
		case l.sources[fault.Field] == "setting "+m.about:
			return true
		case mayBeMissing(m.about, fault.Problem):
			return true
		}
	}
	return false
}

// mayBeMissing reports whether a fault is a missing list item that may have
// been left out because of a mistake in setting. An item without a name may be
// any item.
func mayBeMissing(setting, problem string) bool {
	list, rest, ok := strings.Cut(setting, "[")
	if !ok || !strings.Contains(problem, "the list "+list) {
		return false
	}
	name, _, _ := strings.Cut(rest, "]")
	_, err := strconv.Atoi(name)
	return err == nil || strings.Contains(problem, strconv.Quote(name))
}

// around reports whether a field is a changed one, or contains a changed one.
func around(field string, changed map[string]int) bool {
	for c := range changed {
		if inside(field, c) {
			return true
		}
	}
	return false
}

// inside reports whether path is outer or below it.
func inside(outer, path string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && outer != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// nameless is the list of a setting that is the name of an item, or "".
func nameless(path string) string {
	item, ok := strings.CutSuffix(path, "].name")
	if !ok {
		return ""
	}
	return item[:strings.LastIndex(item, "[")]
}

// place is the place of a setting in a configuration.
type place struct {
	value    reflect.Value
	standard reflect.Value // its default
	list     reflect.Value // the innermost list that contains it, if any
	index    int
}

// find follows path in cfg. Its value is not valid if there is no such setting.
func find(cfg *node.Config, path string) place {
	if path == "" {
		return place{}
	}
	f, p := root, place{value: reflect.ValueOf(cfg).Elem(), standard: reflect.ValueOf(node.DefaultConfig())}
	for path != "" {
		name := path
		if i := strings.IndexAny(path, ".["); i >= 0 {
			name = path[:i]
		}
		path = path[len(name):]
		if f = f.child(name); f == nil {
			return place{}
		}
		p.value, p.standard = fieldOf(p.value, name), fieldOf(p.standard, name)
		if rest, ok := strings.CutPrefix(path, "["); ok && f.kind == kindItems {
			item, after, _ := strings.Cut(rest, "]")
			i := indexOf(p.value, item)
			if i < 0 {
				return place{}
			}
			path = after
			p.list, p.index = p.value, i
			p.value = p.value.Index(i)
			p.standard = standardItem(f, p.value)
		}
		path = strings.TrimPrefix(path, ".")
	}
	return p
}

// reset sets the setting at path to its default, if there is such a setting.
func reset(cfg *node.Config, path string) {
	p := find(cfg, path)
	switch {
	case !p.value.IsValid():
	case nameless(path) != "": // an item needs a name
		leaveOut(cfg, path)
	default:
		p.value.Set(p.standard)
	}
}

// leaveOut removes the list item that contains the setting at path.
func leaveOut(cfg *node.Config, path string) {
	if p := find(cfg, path); p.list.IsValid() {
		p.list.Set(reflect.AppendSlice(p.list.Slice(0, p.index), p.list.Slice(p.index+1, p.list.Len())))
	}
}

func fieldOf(v reflect.Value, name string) reflect.Value {
	byName := map[string]reflect.Value{}
	named(v, byName)
	return byName[name]
}

// indexOf finds an item of a list by its name or number; -1: not found.
func indexOf(list reflect.Value, item string) int {
	for i := range list.Len() {
		if nameOf(list.Index(i)) == item || strconv.Itoa(i) == item {
			return i
		}
	}
	return -1
}

// nameOf is the name of a list item; "" if items have no names.
func nameOf(item reflect.Value) string {
	if name := fieldOf(item, "name"); name.IsValid() {
		return name.String()
	}
	return ""
}

// unknown records that a section has no setting of that name, and suggests one.
func (l *loader) unknown(source string, parent *field, at, name string) {
	path, problem := join(at, name), "unknown setting"
	meant := meantSetting(parent, at, name)
	switch {
	case meant != "" && strings.Contains(name, "."):
		problem += "; a name has no dots: write " + nested(meant)
	case meant != "":
		problem += "; did you mean " + meant + "?"
	}
	l.add(source, meant, fmt.Errorf("%s: %s", shownName(path), problem))
}

// shownName is a name as messages show it: quoted if it could be misread.
func shownName(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` || path == "" || strings.ContainsAny(path, " :") || strings.HasSuffix(path, ".") {
		return q
	}
	return path
}

// nested writes cache.max_bytes in the form of a file.
func nested(path string) string {
	names := strings.Split(path, ".")
	return strings.Join(names, ": {") + ": …" + strings.Repeat("}", len(names)-1)
}
