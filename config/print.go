package config

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"kring/node"
)

// hidden replaces a secret that is set.
const hidden = `"********"`

// Setting is one value of a configuration, in the form of a file.
type Setting struct {
	Path   string // cache.max_bytes, groups[docs].ttl
	Value  string
	Source string // as in Loaded.Sources, or "default"
}

// Settings lists all values in the order of the file. Secrets are masked.
func (l *Loaded) Settings() []Setting {
	var all []Setting
	l.walk(root, "", reflect.ValueOf(l.Config), func(f *field, path string, v reflect.Value) {
		if v.IsValid() {
			all = append(all, Setting{Path: path, Value: f.shown(v), Source: l.origin(path)})
		}
	})
	return all
}

// Changed lists the settings whose values differ between two configurations. It
// compares values, including secrets, not their printed forms.
func Changed(a, b *Loaded) []string {
	collect := func(l *Loaded) map[string]string {
		values := map[string]string{}
		l.walk(root, "", reflect.ValueOf(l.Config), func(f *field, path string, v reflect.Value) {
			if v.IsValid() {
				values[path] = f.render(v)
			}
		})
		return values
	}
	before, after := collect(a), collect(b)
	var changed []string
	for _, path := range sortedKeysOf(before, after) {
		old, was := before[path]
		if now, is := after[path]; was != is || old != now {
			changed = append(changed, path)
		}
	}
	return changed
}

func sortedKeysOf(maps ...map[string]string) []string {
	all := map[string]any{}
	for _, m := range maps {
		for k := range m {
			all[k] = nil
		}
	}
	return sortedKeys(all)
}

// origin is the source of the value at path, in words.
func (l *Loaded) origin(path string) string {
	s := l.Sources[path]
	if other, follows := strings.CutPrefix(s, "setting "); follows {
		return "follows " + other
	}
	return cmp.Or(s, "default")
}

// walk calls visit for each setting. For a section and for the head of a list
// item v is not valid.
func (l *Loaded) walk(f *field, path string, v reflect.Value, visit func(f *field, path string, v reflect.Value)) {
	byName := map[string]reflect.Value{}
	named(v, byName)
	for _, c := range f.fields {
		at, value := join(path, c.name), byName[c.name]
		switch c.kind {
		case kindSection:
			visit(c, at, reflect.Value{})
			l.walk(c, at, value, visit)
		case kindItems:
			visit(c, at, reflect.Value{})
			for i := range value.Len() {
				item := value.Index(i)
				given := map[string]any{"name": nameOf(item)}
				l.walk(c, fmt.Sprintf("%s[%s]", at, itemName(given, i)), item, visit)
			}
		default:
			visit(c, at, value)
		}
	}
}

// shown is render, but masks secrets.
func (f *field) shown(v reflect.Value) string {
	if f.secret() && v.String() != "" {
		return hidden
	}
	return f.render(v)
}

// Print writes the configuration as YAML that Load can read (except for the
// masked secrets). A comment behind each value names its source.
func (l *Loaded) Print(w io.Writer) error { return l.print(w, false) }

// PrintChanged is Print without the settings that have their default.
func (l *Loaded) PrintChanged(w io.Writer) error { return l.print(w, true) }

func (l *Loaded) print(w io.Writer, changed bool) error {
	p := &printer{loaded: l, changed: changed}
	p.section(root, "", "", reflect.ValueOf(l.Config), reflect.ValueOf(node.DefaultConfig()))
	if p.text.Len() == 0 {
		p.line("", "# nothing but defaults", "")
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

type printer struct {
	loaded  *Loaded
	changed bool // print only changed settings
	text    strings.Builder
}

func (p *printer) line(indent, text, source string) {
	line := indent + text
	if source != "" {
		line = fmt.Sprintf("%-48s # %s", line, source)
	}
	p.text.WriteString(strings.TrimRight(line, " ") + "\n")
}

// section writes v. Its defaults are those of standard.
func (p *printer) section(f *field, indent, path string, v, standard reflect.Value) {
	for _, c := range f.fields {
		at, value, usual := join(path, c.name), fieldOf(v, c.name), fieldOf(standard, c.name)
		switch {
		case p.changed && c.same(value, usual):
		case c.kind == kindSection:
			p.line("", indent+c.name+":", "")
			p.section(c, indent+"  ", at, value, usual)
		case c.kind == kindItems && value.Len() == 0:
			p.line(indent, c.name+": []", p.loaded.origin(at))
		case c.kind == kindItems:
			p.line(indent, c.name+":", p.loaded.origin(at))
			p.items(c, indent, at, value)
		default:
			p.line(indent, c.name+": "+c.shown(value), p.loaded.origin(at))
		}
	}
}

// same reports whether two values of a setting or section are equal.
func (f *field) same(a, b reflect.Value) bool {
	if f.kind == kindSection {
		return !slices.ContainsFunc(f.fields, func(c *field) bool { return !c.same(fieldOf(a, c.name), fieldOf(b, c.name)) })
	}
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true // both are empty, nil or not
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// items writes a list. The first line of each item gets the dash.
func (p *printer) items(f *field, indent, path string, list reflect.Value) {
	for i := range list.Len() {
		item := list.Index(i)
		start := p.text.Len()
		given := map[string]any{"name": nameOf(item)}
		p.section(f, indent+"    ", fmt.Sprintf("%s[%s]", path, itemName(given, i)), item, standardItem(f, item))
		body := p.text.String()
		p.text.Reset()
		p.text.WriteString(body[:start] + indent + "  - " + strings.TrimPrefix(body[start:], indent+"    "))
	}
}
