package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"kring/httpapi"
	"kring/node"
)

// kind is how a setting is written and parsed.
type kind uint8

const (
	kindText        kind = iota // a string
	kindBool                    // true or false
	kindInt                     // a whole number
	kindRate                    // a number, per second
	kindSize                    // bytes: 256MiB, 64KiB, 1000
	kindShare                   // a fraction of 1: 12% or 0.12
	kindSizeOrShare             // 64MiB, or 25%
	kindDuration                // 250ms, 30s, 24h
	kindTexts                   // a list of strings
	kindInts                    // a list of whole numbers
	kindSection                 // a group of named settings
	kindItems                   // a list of sections
)

func (k kind) String() string {
	return [...]string{"text", "true|false", "number", "rate", "size", "share", "size|share", "duration", "list", "list", "section", "YAML"}[k]
}

// rates are the floating-point settings that are numbers per second. The others
// are shares.
var rates = []string{"new_key_rate", "hot_rate", "rate_per_token"}

// field is one name of the configuration, and the fields below it.
type field struct {
	name   string
	path   string // dotted; list items have [] in it: groups[].ttl
	kind   kind
	fields []*field // of a section, or of each list item
}

// root describes node.Config. It is derived from the structs, so no setting can
// be forgotten.
var root = &field{kind: kindSection, fields: describe(reflect.TypeFor[node.Config](), "")}

func describe(t reflect.Type, path string) []*field {
	var fields []*field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, option, _ := strings.Cut(sf.Tag.Get("mapstructure"), ",")
		if name == "-" {
			continue
		}
		if option == "squash" {
			fields = append(fields, describe(sf.Type, path)...)
			continue
		}
		f := &field{name: name, path: join(path, name)}
		switch elem := sf.Type; {
		case elem == reflect.TypeFor[time.Duration]():
			f.kind = kindDuration
		case elem.Kind() == reflect.String:
			f.kind = kindText
		case elem.Kind() == reflect.Bool:
			f.kind = kindBool
		case elem.Kind() == reflect.Int:
			f.kind = kindInt
		case elem.Kind() == reflect.Int64:
			f.kind = kindSize
		case elem == reflect.TypeFor[httpapi.SizeOrShare]():
			f.kind = kindSizeOrShare
		case elem.Kind() == reflect.Float64 && slices.Contains(rates, name):
			f.kind = kindRate
		case elem.Kind() == reflect.Float64:
			f.kind = kindShare
		case elem == reflect.TypeFor[[]string]():
			f.kind = kindTexts
		case elem == reflect.TypeFor[[]int]():
			f.kind = kindInts
		case elem.Kind() == reflect.Struct:
			f.kind = kindSection
			f.fields = describe(elem, f.path)
		case elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Struct:
			f.kind = kindItems
			f.fields = describe(elem.Elem(), f.path+"[]")
		default:
			panic(fmt.Sprintf("config: no way to write a setting of type %v (%s)", sf.Type, f.path))
		}
		fields = append(fields, f)
	}
	return fields
}

// leaves returns the settings below f that an environment variable or a flag
// can set. A list of items is one such setting.
func (f *field) leaves() []*field {
	if f.kind != kindSection {
		return []*field{f}
	}
	var all []*field
	for _, c := range f.fields {
		all = append(all, c.leaves()...)
	}
	return all
}

func (f *field) child(name string) *field {
	for _, c := range f.fields {
		if c.name == name {
			return c
		}
	}
	return nil
}

// env is the name of a setting's environment variable: KRING_CACHE_MAX_BYTES.
func (f *field) env() string {
	return "KRING_" + strings.ToUpper(strings.ReplaceAll(f.path, ".", "_"))
}

// flag is the name of a setting's flag: cache-max-bytes.
func (f *field) flag() string {
	if f.path == "node.listen" {
		return "listen"
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(f.path)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
