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

// decode takes each setting's value from its source, checks its kind, fills in
// the defaults, and makes a node.Config. A value of the wrong kind is a
// mistake, and the setting keeps its default.
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
		if value, ok := l.value(f, f.path, raw, source); ok {
			set(values, strings.Split(f.path, "."), value)
		}
	}
	l.fitValue(values["cache"].(map[string]any))
	final := viper.New()
	if err := final.MergeConfigMap(values); err != nil {
		return node.Config{}, fmt.Errorf("merge the settings: %w", err)
	}
	var cfg node.Config
	// Every value has its type by now: mapstructure must decode exactly the
	// checked values and guess nothing.
	exact := func(c *mapstructure.DecoderConfig) { c.WeaklyTypedInput, c.DecodeHook = false, nil }
	if err := final.UnmarshalExact(&cfg, exact); err != nil {
		return node.Config{}, errors.New(oneLine(err.Error()))
	}
	l.listenAsListed(&cfg)
	return cfg, nil
}

// listenAsListed makes a node listen at its address in cluster.peers, unless
// node.listen or node.advertise is set.
func (l *loader) listenAsListed(cfg *node.Config) {
	if l.sources["node.listen"] != "" || cfg.Node.Advertise != "" {
		return
	}
	if address := cfg.ListedAddress(); address != "" && address != cfg.Node.Listen {
		cfg.Node.Listen = address
		l.sources["node.listen"] = "setting cluster.peers"
	}
}

// fitValue lowers the default of cache.max_value_bytes to fit a small budget,
// so that a user who sets only the budget need not set both. A value that was
// set stays, and is refused if it is too large.
func (l *loader) fitValue(values map[string]any) {
	most, ok := values["max_bytes"].(int64)
	if _, given := l.sources["cache.max_value_bytes"]; ok && !given && 0 < most && most < values["max_value_bytes"].(int64) {
		values["max_value_bytes"] = most
		l.sources["cache.max_value_bytes"] = "setting cache.max_bytes"
	}
}

func (l *loader) bindFlag(f *field) error {
	if l.flags == nil {
		return nil
	}
	flag := l.flags.Lookup(f.flag())
	if flag == nil || !flag.Changed { // viper would take an unchanged flag's "" for a value
		return nil
	}
	if err := l.viper.BindPFlag(f.path, flag); err != nil {
		return fmt.Errorf("bind --%s: %w", flag.Name, err)
	}
	return nil
}

// value checks one value; messages name it by path. ok is false after a
// mistake.
func (l *loader) value(f *field, path string, raw any, source string) (value any, ok bool) {
	if f.kind == kindItems {
		return l.items(f, path, raw, source)
	}
	value, err := f.kind.parse(raw)
	switch {
	case err == nil:
		return value, true
	case f.secret():
		err = fmt.Errorf("%s: the value is not a text (put it in quotes)", path)
	default:
		err = fmt.Errorf("%s: %w", path, err)
	}
	l.add(source, path, err)
	return nil, false
}

// items decodes a list of sections. An item has the defaults of its kind for
// the settings that it does not set.
func (l *loader) items(f *field, path string, raw any, source string) (any, bool) {
	entries, err := asList(raw)
	if err != nil {
		l.add(source, path, fmt.Errorf("%s: %w", path, err))
		return nil, false
	}
	items := make([]map[string]any, 0, len(entries))
	for i, entry := range entries {
		given, ok := entry.(map[string]any)
		if !ok {
			l.add(source, path, fmt.Errorf("%s[%d]: %s is not a set of names and values", path, i, show(entry)))
			continue
		}
		at := fmt.Sprintf("%s[%s]", path, itemName(given, i))
		l.checkItem(f, at, given, source)
		item := itemDefaults(f, given)
		l.fill(f.fields, at, given, item, source)
		items = append(items, item)
	}
	return items, true
}

// fill writes the given settings over the defaults in values.
func (l *loader) fill(fields []*field, at string, given, values map[string]any, source string) {
	for _, f := range fields {
		raw := given[f.name]
		if raw == nil {
			continue
		}
		path := at + "." + f.name
		if f.kind != kindSection {
			if value, ok := l.value(f, path, raw, source); ok {
				l.sources[path] = source
				set(values, []string{f.name}, value)
			}
			continue
		}
		if below, ok := raw.(map[string]any); ok {
			l.fill(f.fields, path, below, values[f.name].(map[string]any), source)
		} else {
			l.add(source, path, fmt.Errorf("%s: %s is not a section of settings", path, show(raw)))
		}
	}
}

// itemDefaults is an item of f's list with only defaults. given decides which
// defaults apply.
func itemDefaults(f *field, given map[string]any) map[string]any {
	origin, _ := given["origin"].(map[string]any)
	if item := standard(f, len(origin) > 0); item != nil {
		return valuesOf(reflect.ValueOf(item), f.fields)
	}
	return zeroValues(f.fields)
}

// standard is an item of f's list with only defaults; nil stands for its zero
// value.
func standard(f *field, origin bool) any {
	switch f.path {
	case "groups":
		group := cache.DefaultGroupConfig("")
		if !origin {
			group.TTL = 0
		}
		return group
	case "pools":
		return node.DefaultPoolConfig()
	case "pools[].endpoints":
		return balance.EndpointConfig{Weight: 1}
	}
	return nil
}

// standardItem is standard for an existing item.
func standardItem(f *field, item reflect.Value) reflect.Value {
	group, _ := item.Interface().(cache.GroupConfig)
	if s := standard(f, group.Origin != cache.OriginConfig{}); s != nil {
		return reflect.ValueOf(s)
	}
	return reflect.Zero(item.Type())
}

// valuesOf turns a struct into the map that decodes to it.
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

// zeroValues is an item whose settings have no defaults.
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
		delete(values, name) // an empty list is an absent one, even where there is a default
		return
	}
	values[name] = value
}

// list is a list of sections. Its own type keeps viper from changing the names
// in it.
type list []any

// asList accepts a list, or a list as YAML text from a variable or flag.
func asList(raw any) ([]any, error) {
	switch raw := raw.(type) {
	case list:
		return raw, nil
	case []any:
		return raw, nil
	case string:
		value, err := parseYAML([]byte(raw))
		if err != nil {
			return nil, fmt.Errorf("%s is not a YAML list: %w", show(raw), err)
		}
		if items, ok := value.([]any); ok {
			return items, nil
		}
		return nil, fmt.Errorf("%s is not a YAML list", show(raw))
	}
	return nil, fmt.Errorf("%s is not a list", show(raw))
}

// itemName is the name of an item in messages: its name, or else its number.
func itemName(item map[string]any, i int) string {
	if name, ok := item["name"].(string); ok && name != "" && len(name) <= 63 && strconv.Quote(name) == `"`+name+`"` {
		return name
	}
	return strconv.Itoa(i)
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
