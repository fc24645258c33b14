package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"kring/balance"
	"kring/cache"
	"kring/node"
)

// decode takes each setting's value from where it is to be taken from, checks
// its kind, fills in the defaults, and makes a node.Config of it all.
func (l *loader) decode() (node.Config, error) {
	values := valuesOf(reflect.ValueOf(node.DefaultConfig()), root.fields)
	for _, f := range root.leaves() {
		if err := l.bindFlag(f); err != nil {
			return node.Config{}, err
		}
		raw, source := l.raw(f)
		if raw == nil {
			continue
		}
		l.sources[f.path] = source
		var value any
		var err error
		if f.kind == kindItems {
			value, err = l.items(f, f.path, raw, source)
		} else {
			value, err = f.parse(f.path, raw)
		}
		if err != nil {
			return node.Config{}, located(source, err)
		}
		set(values, strings.Split(f.path, "."), value)
	}
	l.fitValue(values["cache"].(map[string]any))
	final := viper.New()
	if err := final.MergeConfigMap(values); err != nil {
		return node.Config{}, fmt.Errorf("merge the settings: %w", err)
	}
	var cfg node.Config
	// Every value has its type by now: what is decoded is exactly what was
	// checked, and nothing is guessed.
	exact := func(c *mapstructure.DecoderConfig) { c.WeaklyTypedInput, c.DecodeHook = false, nil }
	if err := final.UnmarshalExact(&cfg, exact); err != nil {
		return node.Config{}, errors.New(oneLine(err.Error()))
	}
	return cfg, nil
}

// fitValue lowers the default of cache.max_value_bytes into a small budget, so
// that who sets the budget alone need not set both. A value that was set stays,
// and is refused if it is too large.
func (l *loader) fitValue(values map[string]any) {
	most, ok := values["max_bytes"].(int64)
	if _, given := l.sources["cache.max_value_bytes"]; ok && !given && most > 0 {
		values["max_value_bytes"] = min(values["max_value_bytes"].(int64), most)
	}
}

func (l *loader) bindFlag(f *field) error {
	if l.flags == nil {
		return nil
	}
	flag := l.flags.Lookup(f.flag())
	if flag == nil || !flag.Changed { // viper takes an unchanged flag's "" for a value
		return nil
	}
	if err := l.viper.BindPFlag(f.path, flag); err != nil {
		return fmt.Errorf("bind --%s: %w", flag.Name, err)
	}
	return nil
}

// parse checks one value; path is how a message names it.
func (f *field) parse(path string, raw any) (any, error) {
	value, err := f.kind.parse(raw)
	switch {
	case err == nil:
		return value, nil
	case f.secret():
		return nil, fmt.Errorf("%s: the value is not a text (put it in quotes)", path)
	default:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
}

// items decodes a list of sections. An item has the defaults of its kind where
// it is silent.
func (l *loader) items(f *field, path string, raw any, source string) (any, error) {
	list, err := asList(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	items := make([]map[string]any, 0, len(list))
	for i, entry := range list {
		given, ok := asMap(entry)
		if !ok {
			return nil, fmt.Errorf("%s[%d]: %s is not a set of names and values", path, i, show(entry))
		}
		at := fmt.Sprintf("%s[%s]", path, itemName(given, i))
		if err := checkItem(f, at, given); err != nil {
			return nil, err
		}
		item := itemDefaults(f, given)
		if err := l.fill(f.fields, at, given, item, source); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// fill writes what is given over the defaults in values.
func (l *loader) fill(fields []*field, at string, given, values map[string]any, source string) error {
	for _, f := range fields {
		raw, ok := given[f.name]
		if !ok || raw == nil {
			continue
		}
		path := at + "." + f.name
		var err error
		switch f.kind {
		case kindSection:
			below, ok := asMap(raw)
			if !ok {
				return fmt.Errorf("%s: %s is not a section of settings", path, show(raw))
			}
			err = l.fill(f.fields, path, below, values[f.name].(map[string]any), source)
		case kindItems:
			raw, err = l.items(f, path, raw, source)
		default:
			raw, err = f.parse(path, raw)
		}
		if err != nil {
			return err
		}
		if f.kind != kindSection {
			l.sources[path] = source
			set(values, []string{f.name}, raw)
		}
	}
	return nil
}

// itemDefaults is an item of f's list that says nothing beyond what given says
// about which defaults apply.
func itemDefaults(f *field, given map[string]any) map[string]any {
	var zero any
	switch f.path {
	case "groups":
		group := cache.DefaultGroupConfig("")
		if origin, _ := asMap(given["origin"]); len(origin) == 0 {
			group.TTL = 0
		}
		zero = group
	case "pools":
		zero = node.DefaultPoolConfig()
	case "pools[].endpoints":
		zero = balance.EndpointConfig{Weight: 1}
	default:
		return zeroValues(f.fields)
	}
	return valuesOf(reflect.ValueOf(zero), f.fields)
}

// valuesOf turns a struct into the map that would decode to it.
func valuesOf(v reflect.Value, fields []*field) map[string]any {
	values := map[string]any{}
	byName := map[string]reflect.Value{}
	named(v, byName)
	for _, f := range fields {
		value := byName[f.name]
		switch f.kind {
		case kindSection:
			values[f.name] = valuesOf(value, f.fields)
		case kindItems:
			if value.Len() == 0 {
				continue
			}
			items := make([]map[string]any, value.Len())
			for i := range items {
				items[i] = valuesOf(value.Index(i), f.fields)
			}
			values[f.name] = items
		case kindTexts, kindInts:
			if value.Len() > 0 {
				values[f.name] = value.Interface()
			}
		default:
			values[f.name] = value.Interface()
		}
	}
	return values
}

func named(v reflect.Value, byName map[string]reflect.Value) {
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("mapstructure"), ",")
		switch {
		case option == "squash":
			named(v.Field(i), byName)
		case name != "-":
			byName[name] = v.Field(i)
		}
	}
}

// zeroValues is an item none of whose settings has a default.
func zeroValues(fields []*field) map[string]any {
	values := map[string]any{}
	for _, f := range fields {
		switch f.kind {
		case kindText:
			values[f.name] = ""
		case kindBool:
			values[f.name] = false
		case kindInt:
			values[f.name] = 0
		case kindSize:
			values[f.name] = int64(0)
		case kindRate, kindShare:
			values[f.name] = 0.0
		case kindDuration:
			values[f.name] = time.Duration(0)
		case kindSection:
			values[f.name] = zeroValues(f.fields)
		}
	}
	return values
}

func set(values map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		values = values[name].(map[string]any)
	}
	name := path[len(path)-1]
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice && v.Len() == 0 {
		delete(values, name) // an empty list is none at all, also where there is a default
		return
	}
	values[name] = value
}

// asList accepts a list, or the YAML text of one from a variable or flag.
func asList(raw any) ([]any, error) {
	if list, ok := raw.([]any); ok {
		return list, nil
	}
	text, ok := raw.(string)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", show(raw))
	}
	v := viper.New()
	v.SetConfigType("yaml")
	document := "list:\n" + indent(text)
	if err := v.ReadConfig(strings.NewReader(document)); err != nil {
		return nil, fmt.Errorf("%s is not a YAML list: %s", show(raw), oneLine(err.Error()))
	}
	list, ok := v.Get("list").([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a YAML list", show(raw))
	}
	return list, nil
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

func asMap(raw any) (map[string]any, bool) {
	switch m := raw.(type) {
	case map[string]any:
		return m, true
	case map[any]any:
		named := make(map[string]any, len(m))
		for k, v := range m {
			named[fmt.Sprint(k)] = v
		}
		return named, true
	}
	return nil, false
}

// itemName is what an item is called in messages: its name, or its number.
func itemName(item map[string]any, i int) string {
	if name, ok := item["name"].(string); ok && name != "" && len(name) <= 63 && strconv.Quote(name) == `"`+name+`"` {
		return name
	}
	return strconv.Itoa(i)
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
