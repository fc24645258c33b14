package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"kring/node"
)

// Mistakes are several things that are wrong with a configuration.
type Mistakes []error

// Error is all of them on one line.
func (m Mistakes) Error() string {
	texts := make([]string, len(m))
	for i, err := range m {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (m Mistakes) Unwrap() []error { return m }

// mistake is one of them, and the setting that it is about: the one that was
// meant, if a name is unknown. "" is none.
type mistake struct {
	about string
	err   error
}

// found notes a mistake in what a source says.
func (l *loader) found(source, about string, err error) {
	l.mistakes = append(l.mistakes, mistake{about, located(source, err)})
}

// err is all mistakes; one alone is itself.
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

// mostRounds bounds the search for more faults.
const mostRounds = 100

// validate finds all faults of a configuration. A check ends at the first
// thing that it minds; the setting at fault then gets its default, and the check
// has another round. What another mistake explains is not told.
func (l *loader) validate(loaded *Loaded, faults func(node.Config) []error) {
	cfg := loaded.Config
	for range mostRounds {
		known := len(l.mistakes)
		for _, err := range faults(cfg) {
			fault, ok := errors.AsType[*node.FieldError](err)
			if !ok {
				fault = &node.FieldError{Problem: err.Error()}
			}
			if !l.explained(fault) {
				l.mistakes = append(l.mistakes, mistake{fault.Field, loaded.Locate(err)})
			}
		}
		if len(l.mistakes) == known {
			return
		}
		for _, m := range l.mistakes[known:] {
			reset(&cfg, m.about)
		}
	}
}

// explained reports whether a fault may be the consequence of a mistake that is
// known: it is of the same setting, of one around it, of one that follows it, or
// names it.
func (l *loader) explained(fault *node.FieldError) bool {
	for _, m := range l.mistakes {
		switch {
		case m.about == "" && m.err.Error() == fault.Problem:
			return true
		case m.about == "":
		case m.about == fault.Field, strings.Contains(fault.Problem, m.about):
			return true
		case l.sources[fault.Field] == "setting "+m.about:
			return true
		case nameless(m.about) != "" && strings.Contains(fault.Problem, "the list "+nameless(m.about)):
			return true
		case fault.Field != "" && (strings.HasPrefix(m.about, fault.Field+".") || strings.HasPrefix(m.about, fault.Field+"[")):
			return true
		}
	}
	return false
}

// nameless is the list that a setting is of, if that is the name of an item.
func nameless(path string) string {
	item, ok := strings.CutSuffix(path, "].name")
	if !ok {
		return ""
	}
	return item[:strings.LastIndex(item, "[")]
}

// reset gives the setting at path its default, if there is such a setting. An
// item whose name is at fault is removed.
func reset(cfg *node.Config, path string) {
	v, standard := reflect.ValueOf(cfg).Elem(), reflect.ValueOf(node.DefaultConfig())
	f := root
	for path != "" {
		name, item := path, ""
		if i := strings.IndexAny(path, ".["); i >= 0 {
			name, path = path[:i], path[i:]
		} else {
			path = ""
		}
		if f = f.child(name); f == nil {
			return
		}
		v, standard = fieldOf(v, name), fieldOf(standard, name)
		if rest, ok := strings.CutPrefix(path, "["); ok {
			if item, path, ok = strings.Cut(rest, "]"); !ok || f.kind != kindItems {
				return
			}
			i := indexOf(v, item)
			if i < 0 {
				return
			}
			if path == ".name" {
				v.Set(reflect.AppendSlice(v.Slice(0, i), v.Slice(i+1, v.Len())))
				return
			}
			v = v.Index(i)
			standard = standardItem(f, v)
		}
		path = strings.TrimPrefix(path, ".")
	}
	v.Set(standard)
}

func fieldOf(v reflect.Value, name string) reflect.Value {
	byName := map[string]reflect.Value{}
	named(v, byName)
	return byName[name]
}

// indexOf finds an item of a list by its name, or its number; -1: there is none.
func indexOf(list reflect.Value, item string) int {
	for i := range list.Len() {
		if nameOf(list.Index(i)) == item || strconv.Itoa(i) == item {
			return i
		}
	}
	return -1
}

// nameOf is what an item of a list is called; "" if items have no names.
func nameOf(item reflect.Value) string {
	if name := fieldOf(item, "name"); name.IsValid() {
		return name.String()
	}
	return ""
}

// unknown notes that a section has no setting of that name, and says which one
// was meant.
func (l *loader) unknown(source string, parent *field, at, name string) {
	path, problem := join(at, name), "unknown setting"
	meant := meantSetting(parent, at, name)
	switch {
	case meant != "" && strings.Contains(name, "."):
		problem += "; a name has no dots: write " + nested(meant)
	case meant != "":
		problem += "; did you mean " + meant + "?"
	}
	l.found(source, meant, fmt.Errorf("%s: %s", shownName(path), problem))
}

// shownName is a name as a message shows it: quoted if it could be taken for
// something else.
func shownName(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` || path == "" || strings.ContainsAny(path, " :") {
		return q
	}
	return path
}

// nested writes cache.max_bytes as it stands in a file.
func nested(path string) string {
	names := strings.Split(path, ".")
	return strings.Join(names, ": {") + ": …" + strings.Repeat("}", len(names)-1)
}
