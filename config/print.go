package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// hidden stands for a secret that is set.
const hidden = `"********"`

// Setting is one value of a configuration, written as in a file.
type Setting struct {
	Path   string // cache.max_bytes, groups[docs].ttl
	Value  string
	Source string // as in Loaded.Sources; "default" if nothing sets it
}

// Settings lists all values in the order of the file, secrets masked.
func (l *Loaded) Settings() []Setting {
	var all []Setting
	l.walk(root, "", reflect.ValueOf(l.Config), func(f *field, path string, v reflect.Value) {
		if v.IsValid() {
			all = append(all, Setting{Path: path, Value: f.shown(v), Source: l.origin(path)})
		}
	})
	return all
}

// Changed lists the settings whose values differ between two configurations.
// Values, not what is shown of them, are compared, secrets included.
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

// origin is where the value at path came from, in words.
func (l *Loaded) origin(path string) string {
	if s := l.Sources[path]; s != "" {
		return s
	}
	return "default"
}

// walk calls visit for each setting; for the head of a list item, and of a
// section, v is not valid.
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
				name := map[string]any{}
				inner := map[string]reflect.Value{}
				named(item, inner)
				if n, ok := inner["name"]; ok {
					name["name"] = n.String()
				}
				l.walk(c, fmt.Sprintf("%s[%s]", at, itemName(name, i)), item, visit)
			}
		default:
			visit(c, at, value)
		}
	}
}

// shown is render with secrets masked.
func (f *field) shown(v reflect.Value) string {
	if f.secret() && v.String() != "" {
		return hidden
	}
	return f.render(v)
}

// Print writes the configuration as YAML that Load reads back (but for the
// masked secrets), with a comment behind each value that says where it came
// from.
func (l *Loaded) Print(w io.Writer) error { return l.print(w, false) }

// PrintChanged is Print of what a flag, the environment or the file sets.
func (l *Loaded) PrintChanged(w io.Writer) error { return l.print(w, true) }

func (l *Loaded) print(w io.Writer, changed bool) error {
	p := &printer{loaded: l, changed: changed}
	p.section(root, "", "", reflect.ValueOf(l.Config))
	if p.text.Len() == 0 {
		p.line("", "# nothing but defaults", "")
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

type printer struct {
	loaded  *Loaded
	changed bool // leaves out what nothing sets
	text    strings.Builder
}

func (p *printer) line(indent, text, source string) {
	line := indent + text
	if source != "" {
		line = fmt.Sprintf("%-48s # %s", line, source)
	}
	p.text.WriteString(strings.TrimRight(line, " ") + "\n")
}

func (p *printer) section(f *field, indent, path string, v reflect.Value) {
	byName := map[string]reflect.Value{}
	named(v, byName)
	for _, c := range f.fields {
		at, value := join(path, c.name), byName[c.name]
		switch {
		case p.changed && c.kind != kindSection && p.loaded.Sources[at] == "":
		case c.kind == kindSection:
			p.heading(indent+c.name+":", func() { p.section(c, indent+"  ", at, value) })
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

// heading writes a line and what comes below it; if nothing does, neither.
func (p *printer) heading(text string, below func()) {
	before := p.text.String()
	p.line("", text, "")
	start := p.text.Len()
	if below(); p.text.Len() > start {
		return
	}
	p.text.Reset()
	p.text.WriteString(before)
}

// items writes a list; the first line of each item gets the dash.
func (p *printer) items(f *field, indent, path string, list reflect.Value) {
	for i := range list.Len() {
		item := list.Index(i)
		inner := map[string]reflect.Value{}
		named(item, inner)
		given := map[string]any{}
		if n, ok := inner["name"]; ok {
			given["name"] = n.String()
		}
		start := p.text.Len()
		p.section(f, indent+"    ", fmt.Sprintf("%s[%s]", path, itemName(given, i)), item)
		body := p.text.String()
		p.text.Reset()
		p.text.WriteString(body[:start] + indent + "  - " + strings.TrimPrefix(body[start:], indent+"    "))
	}
}
