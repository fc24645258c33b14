package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar is an unquoted value that YAML would read as something other than
// text: 12, 1e3, true, 2020-01-01. It is parsed like the text of a variable or
// flag, so that one spelling means the same everywhere.
type scalar string

// parseYAML reads the only document of text: a map of texts to values, which
// are nil, string, scalar, []any and map[string]any. Names stay unchanged.
// Anchors and merge keys (<<) are resolved.
func parseYAML(text []byte) (any, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	for {
		var next yaml.Node
		switch err := decoder.Decode(&next); {
		case errors.Is(err, io.EOF):
			return resolve(&first)
		case err != nil:
			return nil, fmt.Errorf("after the first document: %s", oneLine(err.Error()))
		case !blank(&next):
			return nil, fmt.Errorf("line %d: a second document; all settings must be in one", next.Line)
		}
	}
}

// blank reports whether a document is empty.
func blank(document *yaml.Node) bool {
	return !slices.ContainsFunc(document.Content, func(n *yaml.Node) bool {
		return n.Kind != yaml.ScalarNode || n.ShortTag() != "!!null"
	})
}

func resolve(document *yaml.Node) (any, error) {
	if err := checkKeys(document); err != nil {
		return nil, err
	}
	// This finds the mistakes that the library knows: duplicate names, unknown
	// or recursive aliases, and too many of them.
	var known any
	if err := document.Decode(&known); err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	return plain(document)
}

// checkKeys refuses names that are not text.
func checkKeys(n *yaml.Node) error {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			tag := c.ShortTag()
			if c.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!merge" {
				return fmt.Errorf("line %d: %s is not the name of a setting", c.Line, show(shown(c)))
			}
			continue
		}
		if err := checkKeys(c); err != nil {
			return err
		}
	}
	return nil
}

func shown(n *yaml.Node) any {
	switch n.Kind {
	case yaml.AliasNode:
		return scalar("*" + n.Value)
	case yaml.MappingNode:
		return scalar("{…}")
	case yaml.SequenceNode:
		return scalar("[…]")
	}
	return scalar(n.Value)
}

// plain turns parsed YAML into Go values.
func plain(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(n.Content[0])
	case yaml.AliasNode:
		return plain(n.Alias)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			value, err := plain(c)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	case yaml.MappingNode:
		m := map[string]any{}
		return m, fillMap(m, n)
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!str", "!":
		return n.Value, nil
	case "!!int", "!!float", "!!bool", "!!timestamp":
		return scalar(n.Value), nil
	}
	return nil, fmt.Errorf("line %d: values of type %s are not supported", n.Line, n.ShortTag())
}

// fillMap adds to m the entries of a mapping that m lacks. The mapping's own
// names go before those of merged maps.
func fillMap(m map[string]any, n *yaml.Node) error {
	var merged []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		if _, there := m[key.Value]; there {
			continue
		}
		v, err := plain(value)
		if err != nil {
			return err
		}
		m[key.Value] = v
	}
	for _, value := range merged {
		maps := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			maps = value.Content
		}
		for _, from := range maps {
			if from.Kind == yaml.AliasNode {
				from = from.Alias
			}
			if err := fillMap(m, from); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneLine joins a message of several lines into one.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
